// The photograph, and the part of it that is enlarged.

import { onMoves } from "./page.js";

const OVERVIEW = 640; // pixels of the longer side of what shows the whole photograph

export class Photograph {
  #canvas;
  #changed;
  #bitmap = null;
  #part = 128;
  #corner = [0, 0];
  name = "";

  /** `changed` is called when another part is to be enlarged. */
  constructor(canvas, changed) {
    this.#canvas = canvas;
    this.#changed = changed;
    onMoves(canvas, (...place) => this.#toPointer(...place), ([right, down], { shiftKey }) => {
      const step = shiftKey ? 1 : 16;
      if (this.#bitmap) this.move(this.#corner[0] + right * step, this.#corner[1] + down * step);
    });
  }

  /** Reads a picture file. Throws where the browser cannot. `corner`: default the middle. */
  async read(blob, name, corner = null) {
    let bitmap;
    try {
      bitmap = await createImageBitmap(blob);
    } catch {
      throw new Error(`${name}: not a picture that this browser can read`);
    }
    this.#bitmap?.close();
    this.#bitmap = bitmap;
    this.name = name;
    const [width, height] = this.partSize();
    this.move(...(corner ?? [(bitmap.width - width) / 2, (bitmap.height - height) / 2]));
  }

  get size() {
    return [this.#bitmap.width, this.#bitmap.height];
  }

  get corner() {
    return [...this.#corner];
  }

  /** Width and height of the part: smaller where the photograph is. */
  partSize() {
    return this.size.map((length) => Math.min(length, this.#part));
  }

  /** Another side of the part; its middle stays. */
  resize(side) {
    const middle = this.partSize().map((length, axis) => this.#corner[axis] + length / 2);
    this.#part = side;
    this.move(...this.partSize().map((length, axis) => middle[axis] - length / 2));
  }

  move(left, top) {
    const part = this.partSize();
    this.#corner = [left, top].map((start, axis) =>
      Math.round(Math.min(Math.max(start, 0), this.size[axis] - part[axis])));
    this.#draw();
    this.#changed();
  }

  /** The part's pixels, RGBA, on white where the photograph is transparent. */
  pixels() {
    const [width, height] = this.partSize();
    const context = new OffscreenCanvas(width, height)
      .getContext("2d", { willReadFrequently: true });
    context.fillStyle = "#fff";
    context.fillRect(0, 0, width, height);
    context.drawImage(this.#bitmap, ...this.#corner, width, height, 0, 0, width, height);
    return { pixels: context.getImageData(0, 0, width, height).data, width, height };
  }

  #toPointer(x, y, box) {
    if (!this.#bitmap) return;
    const scale = this.#bitmap.width / box.width;
    const [width, height] = this.partSize();
    this.move(x * scale - width / 2, y * scale - height / 2);
  }

  #draw() {
    const [width, height] = this.size;
    const scale = Math.min(1, OVERVIEW / Math.max(width, height));
    this.#canvas.width = Math.max(1, Math.round(width * scale));
    this.#canvas.height = Math.max(1, Math.round(height * scale));
    const context = this.#canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
    context.drawImage(this.#bitmap, 0, 0, this.#canvas.width, this.#canvas.height);
    const frame = [...this.#corner, ...this.partSize()].map((length) => length * scale);
    context.fillStyle = "#0008";
    context.beginPath();
    context.rect(0, 0, this.#canvas.width, this.#canvas.height);
    context.rect(...frame);
    context.fill("evenodd");
    context.lineWidth = 2;
    context.strokeStyle = "#fff";
    context.strokeRect(...frame);
  }
}
