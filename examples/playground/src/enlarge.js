// Super-resolution by a factor that is an input of the model.

import { about, bytes } from "./assets.js";
import { find, say } from "./page.js";
import { Photograph } from "./photograph.js";
import { newest, Runtime } from "./runtime.js";

// onnxruntime-web's build for GPUs has no float64, in which the function body of a resize computes
// lengths and coordinates. So with a GPU the model runs in two parts: the resize on the CPU, the
// convolutions on the GPU.
const MODELS = { wasm: ["super_resolution.onnx", "bicubic.onnx"], webgpu: ["refine.onnx"] };
const NAMES = { wasm: "CPU (WebAssembly)", webgpu: "GPU (WebGPU)" };
const duration = (milliseconds) =>
  milliseconds < 1000 ? `${milliseconds.toFixed(0)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;

export class Enlarge {
  #runtimes = {}; // "wasm", and "webgpu" once it was chosen
  #backend = null;
  #photograph = new Photograph(find("overview"), () => this.#request());
  #request = newest((...values) => this.#run(...values));
  /** The last result, for tests and the console: {ours, bicubic, factor, corner, ...}. */
  last = null;

  constructor() {
    find("factor").addEventListener("input", (event) => this.#setFactor(event.target));
    find("factor-number").addEventListener("input", (event) => this.#setFactor(event.target));
    find("part").addEventListener("change", ({ target }) =>
      this.#photograph.resize(Number(target.value)));
    find("file").addEventListener("change", ({ target }) => this.read(target.files[0]));
    find("backend").addEventListener("change", ({ target }) => this.use(target.value));
    find("save").addEventListener("click", () => this.#save());
    const drop = document.documentElement;
    drop.addEventListener("dragover", (event) => event.preventDefault());
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      this.read(event.dataTransfer.files[0]);
    });
    const { bytes: size, sha256 } = about("super_resolution.onnx");
    find("model").textContent = `${(size / 1024).toFixed(0)} KiB, SHA-256 ${sha256.slice(0, 12)}…`;
  }

  async start() {
    const photograph = new Blob([await bytes("photograph.png")], { type: "image/png" });
    await this.#photograph.read(photograph, "astronaut.png", [172, 70]);
    await this.use("wasm");
    await this.#offerGpu();
  }

  /** Goes on with `backend`, "wasm" or "webgpu"; loads it where it was not used before. */
  async use(backend) {
    const { loaded } = about(backend);
    try {
      if (!this.#runtimes[backend]) {
        say("status", `Loading the runtime, ${(loaded / 2 ** 20).toFixed(1)} MiB …`);
        this.#runtimes[backend] = await Runtime.start(backend, MODELS[backend]);
      }
    } catch (error) {
      // Said, and what ran before runs on.
      say("status", `${NAMES[backend]} cannot be used: ${error.message}`, true);
      if (this.#backend) find("backend").value = this.#backend;
      return;
    }
    this.#backend = backend;
    await this.#request();
    await this.#request(); // the first call of a model is slower: shown, then measured again
  }

  async read(file) {
    if (!file) return;
    try {
      await this.#photograph.read(file, file.name);
    } catch (error) {
      say("status", error.message, true);
    }
    find("file").value = ""; // the same file can be chosen again
  }

  async #offerGpu() {
    const option = find("backend").querySelector("[value=webgpu]");
    const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
    option.disabled = !adapter;
    option.textContent = adapter ? NAMES.webgpu : `${NAMES.webgpu}: this browser has none`;
    if (!adapter || (adapter.info ?? adapter).isFallbackAdapter) return; // none, or a CPU's
    find("backend").value = "webgpu";
    await this.use("webgpu");
  }

  #setFactor(changed) {
    const factor = Number(changed.value);
    if (!changed.value || !(factor >= 1 && factor <= 4)) return; // being typed
    for (const input of [find("factor"), find("factor-number")]) {
      if (input !== changed) input.value = factor;
    }
    this.#request();
  }

  async #run() {
    if (!this.#backend) return;
    const factor = Number(find("factor").value);
    const part = { ...this.#photograph.pixels(), factor };
    const backend = this.#backend;
    const asked = { factor, corner: this.#photograph.corner, name: this.#photograph.name, backend };
    const { wasm, webgpu } = this.#runtimes;
    try {
      const bicubic = await wasm.ask("enlarge", { model: "bicubic.onnx", ...part });
      let ours;
      if (backend === "webgpu") {
        const { enlarged } = bicubic;
        ours = await webgpu.ask("refine", { model: "refine.onnx", enlarged, factor });
        ours.milliseconds += bicubic.milliseconds;
      } else {
        ours = await wasm.ask("enlarge", { model: "super_resolution.onnx", ...part });
      }
      this.last = { ...asked, ours, bicubic };
      this.#show("ours", ours);
      this.#show("bicubic", bicubic);
      find("save").disabled = false;
      say("status", `${part.width} × ${part.height} → ${ours.width} × ${ours.height} pixels, factor ` +
        `${factor}. ${NAMES[backend]}: super-resolution ${duration(ours.milliseconds)}, ` +
        `bicubic ${duration(bicubic.milliseconds)}.`);
    } catch (error) {
      say("status", `The model failed: ${error.message}`, true);
    }
  }

  #show(key, { pixels, width, height, milliseconds }) {
    const canvas = find(key);
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
    find(`${key}-note`).textContent = `${width} × ${height}, ${duration(milliseconds)}`;
  }

  async #save() {
    const blob = await new Promise((resolve) => find("ours").toBlob(resolve, "image/png"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${this.last.name.replace(/\.\w+$/, "")}_x${this.last.factor}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}
