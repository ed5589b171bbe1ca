// Builds the page: node build.mjs MODELS OUTPUT
//
// MODELS is what models.py wrote. OUTPUT gets index.html and everything it needs: any web server can
// give it out, and it works as a file too. A page that is opened as a file may not read other files,
// only run scripts; so the runtime and the models are put into scripts, compressed with gzip and
// written in base64. That is also less to load than the files as they are.

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
if (process.argv.length !== 4) {
  console.error("usage: node build.mjs MODELS OUTPUT");
  process.exit(2);
}
const [models, output] = process.argv.slice(2).map((path) => resolve(path));

const runtime = dirname(createRequire(import.meta.url).resolve("onnxruntime-web/wasm"));
const { version } = JSON.parse(readFileSync(join(runtime, "..", "package.json"), "utf8"));

// What is loaded when it is needed, by name.
const files = {
  "wasm": join(runtime, "ort-wasm-simd-threaded.wasm"),
  "webgpu": join(runtime, "ort-wasm-simd-threaded.asyncify.wasm"),
  "super_resolution.onnx": join(models, "super_resolution.onnx"),
  "bicubic.onnx": join(models, "bicubic.onnx"),
  "refine.onnx": join(models, "refine.onnx"),
  "digits.onnx": join(models, "digits.onnx"),
  "digits.json": join(models, "digits.json"),
  "photograph.png": join(models, "photograph.png"),
};

function asset(name, bytes) {
  const text = gzipSync(bytes, { level: 9 }).toString("base64");
  writeFileSync(join(output, "assets", `${name}.js`), `playgroundAsset("${name}","${text}");\n`);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { bytes: bytes.length, loaded: text.length, sha256 };
}

async function bundle(entry, options) {
  const result = await build({
    entryPoints: [join(here, "src", entry)], bundle: true, minify: true, write: false,
    absWorkingDir: here, target: "es2022", legalComments: "eof", logLevel: "warning", ...options,
  });
  return result.outputFiles[0].contents;
}

rmSync(output, { recursive: true, force: true });
mkdirSync(join(output, "assets"), { recursive: true });
const about = {};
for (const [name, path] of Object.entries(files)) about[name] = asset(name, readFileSync(path));
for (const backend of ["wasm", "webgpu"]) {
  // The two builds of the runtime have the same interface. A classic worker: browsers refuse to
  // start a module from a blob in a page that is opened as a file.
  const worker = await bundle("worker.js", {
    format: "iife",
    alias: { "onnxruntime-web": `onnxruntime-web/${backend}` },
    define: { "import.meta.url": "self.location.href" },
  });
  about[`${backend}_worker`] = asset(`${backend}_worker`, Buffer.from(worker));
}
const define = { ASSETS: JSON.stringify(about), RUNTIME_VERSION: JSON.stringify(version) };
writeFileSync(join(output, "playground.js"), await bundle("main.js", { format: "iife", define }));
for (const name of ["index.html", "style.css"]) copyFileSync(join(here, name), join(output, name));
copyFileSync(files["super_resolution.onnx"], join(output, "super_resolution.onnx"));
