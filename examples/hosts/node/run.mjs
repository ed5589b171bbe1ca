// Runs an ONNX model in Node.js. onnxruntime-node cannot load custom-op libraries, so the nodes of
// the domain "myops" run through the function bodies that the file carries.
//
//   node run.mjs net.onnx OUTPUT.npy INPUT.npy...
import { readFileSync, writeFileSync } from "node:fs";
import ort from "onnxruntime-node";

// A tensor from a .npy file of little-endian float32 in C order.
function readNpy(path) {
  const bytes = readFileSync(path);
  const end = 10 + bytes.readUInt16LE(8);
  const header = bytes.toString("latin1", 10, end);
  const found = /'descr': '<f4', 'fortran_order': False, 'shape': \(([\d, ]*)\)/.exec(header);
  if (bytes.toString("latin1", 1, 6) !== "NUMPY" || bytes[6] !== 1 || !found) {
    throw new Error(`${path}: expected a .npy file of version 1 with float32 in C order`);
  }
  const shape = found[1].split(",").map(Number).slice(0, found[1].match(/\d+/g)?.length ?? 0);
  const data = bytes.buffer.slice(bytes.byteOffset + end, bytes.byteOffset + bytes.length);
  return new ort.Tensor("float32", new Float32Array(data), shape);
}

function writeNpy(path, tensor) {
  const shape = tensor.dims.map((length) => `${length},`).join("");
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape}), }`;
  const text = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
  const start = Buffer.from("\x93NUMPY\x01\x00\x00\x00" + text, "latin1");
  start.writeUInt16LE(text.length, 8);
  const { buffer, byteOffset, byteLength } = tensor.data;
  writeFileSync(path, Buffer.concat([start, Buffer.from(buffer, byteOffset, byteLength)]));
}

const [model, output, ...files] = process.argv.slice(2);
if (files.length === 0) {
  console.error("usage: node run.mjs MODEL.onnx OUTPUT.npy INPUT.npy...");
  process.exit(2);
}
const session = await ort.InferenceSession.create(model);
if (files.length !== session.inputNames.length) {
  throw new Error(`the model has ${session.inputNames.length} inputs, got ${files.length} files`);
}
const feeds = Object.fromEntries(session.inputNames.map((name, i) => [name, readNpy(files[i])]));
const name = session.outputNames[0];
const result = (await session.run(feeds))[name];
writeNpy(output, result);
console.log(`onnxruntime-node ${ort.env.versions.node}: ${name} [${result.dims}] in ${output}`);
