// Runs models in a thread of its own, so that sliders stay smooth. The first message brings the
// runtime and the models; each further one is a request, answered by its number.

import * as ort from "onnxruntime-web";
import { toPixels, toPlanes } from "./pixels.js";

const sessions = new Map();

async function start({ backend, wasm, models }) {
  ort.env.wasm.wasmBinary = wasm;
  ort.env.wasm.numThreads = 1; // more needs a server that isolates the page from other origins
  const began = performance.now();
  for (const [name, bytes] of Object.entries(models)) {
    const options = { executionProviders: [backend] };
    sessions.set(name, await ort.InferenceSession.create(new Uint8Array(bytes), options));
  }
  return { milliseconds: performance.now() - began };
}

/** `inputs` are {data, dims}, in the order of the model's inputs. */
async function run(name, inputs) {
  const session = sessions.get(name);
  const tensors = {};
  inputs.forEach(({ data, dims }, index) => {
    tensors[session.inputNames[index]] = new ort.Tensor("float32", data, dims);
  });
  const began = performance.now();
  const results = await session.run(tensors);
  const outputs = {};
  for (const [key, value] of Object.entries(results)) {
    outputs[key] = { data: await value.getData(), dims: value.dims };
  }
  const milliseconds = performance.now() - began;
  for (const value of [...Object.values(results), ...Object.values(tensors)]) value.dispose();
  return { outputs, milliseconds };
}

async function enlarge(model, inputs, factor) {
  const scales = { data: Float32Array.of(1, 1, factor, factor), dims: [4] };
  const { outputs, milliseconds } = await run(model, [...inputs, scales]);
  const [enlarged] = Object.values(outputs);
  const [, , height, width] = enlarged.dims;
  return { pixels: toPixels(enlarged.data, enlarged.dims), width, height, milliseconds, enlarged };
}

const actions = {
  start,
  run: ({ model, inputs }) => run(model, inputs),
  /** Of a photograph. */
  enlarge: ({ model, pixels, width, height, factor }) =>
    enlarge(model, [{ data: toPlanes(pixels, width, height), dims: [1, 3, height, width] }], factor),
  /** Of what was enlarged before. */
  refine: ({ model, enlarged, factor }) => enlarge(model, [enlarged], factor),
};

self.onmessage = async ({ data: { number, action, request } }) => {
  try {
    self.postMessage({ number, result: await actions[action](request) });
  } catch (error) {
    self.postMessage({ number, error: String(error?.message ?? error) });
  }
};
