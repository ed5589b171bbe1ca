// A worker with ONNX Runtime in it, as the page sees it.

import { bytes } from "./assets.js";

export class Runtime {
  #worker;
  #answers = new Map(); // number of a request -> [resolve, reject]
  #number = 0;
  #failure = null; // why it cannot answer any more

  /** Starts one. `backend` is "wasm" or "webgpu", `models` are names of assets. */
  static async start(backend, models) {
    const runtime = new Runtime();
    const source = await bytes(`${backend}_worker`);
    // A page that is opened as a file may start a worker from a blob only.
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    runtime.#worker = new Worker(url);
    runtime.#worker.onmessage = ({ data }) => runtime.#answer(data);
    runtime.#worker.onerror = (event) => runtime.#fail(event.message || "the worker failed");
    const files = {};
    for (const model of models) files[model] = await bytes(model);
    try {
      const wasm = await bytes(backend);
      runtime.started = await runtime.ask("start", { backend, wasm, models: files });
    } catch (error) {
      runtime.stop();
      throw error;
    } finally {
      URL.revokeObjectURL(url);
    }
    return runtime;
  }

  ask(action, request) {
    if (this.#failure) return Promise.reject(this.#failure);
    const number = this.#number++;
    return new Promise((resolve, reject) => {
      this.#answers.set(number, [resolve, reject]);
      this.#worker.postMessage({ number, action, request });
    });
  }

  stop() {
    this.#worker.terminate();
    this.#fail("stopped");
  }

  #answer({ number, result, error }) {
    const [resolve, reject] = this.#answers.get(number);
    this.#answers.delete(number);
    if (error === undefined) resolve(result);
    else reject(new Error(error));
  }

  #fail(message) {
    this.#failure = new Error(message);
    for (const [, reject] of this.#answers.values()) reject(this.#failure);
    this.#answers.clear();
  }
}

/**
 * A function that does `work` for the newest request: while one is being done, only the last of
 * those that come is kept.
 */
export function newest(work) {
  let busy = false;
  let next = null;
  return async function request(...values) {
    next = values;
    if (busy) return;
    busy = true;
    try {
      while (next) {
        const now = next;
        next = null;
        await work(...now);
      }
    } finally {
      busy = false;
    }
  };
}
