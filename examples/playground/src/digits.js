// The deformable network reads a digit; where it samples is drawn with each movement.

import { bytes } from "./assets.js";
import { find, onMoves, say } from "./page.js";
import { newest, Runtime } from "./runtime.js";
import { followed, layer, regularTaps, SIDE, STEP, tapsOf, throughBoth, throughPlain }
  from "./taps.js";

const BORDER = 5; // pixels around the picture; a few taps lie even farther out
const SCALE = 12; // pixels of the canvas for one of the picture
const COLOURS = ["#ff6a3d", "#35c9ff"];

export class Digits {
  #runtime = null;
  #images = null;
  #copy = 0;
  #centre = [0, 0];
  #turning = null;
  #request = newest((...values) => this.#run(...values));
  /** The last result, for tests and the console. */
  last = null;

  constructor() {
    for (const id of ["digit", "side", "degrees"]) {
      find(id).addEventListener("input", () => this.#request());
    }
    for (const input of document.getElementsByName("shown")) {
      input.addEventListener("change", () => this.#draw());
    }
    find("another").addEventListener("click", () => {
      this.#copy += 1;
      this.#request();
    });
    find("turn").addEventListener("click", () => this.#turn());
    onMoves(find("sampling"), (x, y, box) => {
      const whole = SIDE + 2 * BORDER;
      this.#move((x / box.width - 0.5) * whole, (y / box.height - 0.5) * whole);
    }, ([right, down]) => this.#move(this.#centre[0] + right, this.#centre[1] + down));
    find("scores").append(...Array.from({ length: 10 }, (_, digit) => {
      const item = document.createElement("li");
      item.innerHTML = `<b>${digit}</b><span class="bar"><i></i></span><span class="share"></span>`;
      return item;
    }));
  }

  async start() {
    this.#images = JSON.parse(new TextDecoder().decode(await bytes("digits.json")));
    this.#runtime = await Runtime.start("wasm", ["digits.onnx"]);
    await this.#request();
  }

  #move(right, down) {
    const most = SIDE / 2;
    this.#centre = [right, down].map((value) => Math.min(Math.max(value, -most), most));
    this.#request();
  }

  #turn() {
    const input = find("degrees");
    if (this.#turning === null) {
      let rising = true;
      this.#turning = setInterval(() => {
        const degrees = Number(input.value) + (rising ? 2 : -2);
        if (Math.abs(degrees) >= 60) rising = degrees < 0;
        input.value = degrees;
        this.#request();
      }, 50);
    } else {
      clearInterval(this.#turning);
      this.#turning = null;
    }
    find("turn").textContent = this.#turning === null ? "Turn it" : "Stop";
  }

  async #run() {
    if (!this.#runtime) return;
    const [digit, side, degrees] = ["digit", "side", "degrees"].map((id) => Number(find(id).value));
    const images = this.#images[digit];
    const image = images[this.#copy % images.length];
    const placed = { side, degrees, centre: [...this.#centre] };
    find("side-note").textContent = `${side} pixels`;
    find("degrees-note").textContent = `${degrees}°`;
    const inputs = [
      { data: Float32Array.from(image, (ink) => ink / 16), dims: [1, 1, 8, 8] },
      { data: Float32Array.of(side), dims: [1] },
      { data: Float32Array.of(degrees), dims: [1] },
      { data: Float32Array.from(placed.centre), dims: [1, 2] },
    ];
    try {
      const { outputs, milliseconds } =
        await this.#runtime.ask("run", { model: "digits.onnx", inputs });
      const second = layer(outputs.second_taps, outputs.second_mask);
      const third = layer(outputs.third_taps, outputs.third_mask);
      const pixels = followed(placed, third);
      const [scores, picture] = [outputs.scores.data, outputs.picture.data];
      const seen = pixels.map(([row, column]) => throughBoth(second, third, row, column));
      this.last = { placed, digit, image, scores, picture, third, pixels, seen, milliseconds };
    } catch (error) {
      say("digits-status", `The network failed: ${error.message}`, true);
      return;
    }
    this.#answer();
    this.#draw();
  }

  #answer() {
    const { scores, digit, milliseconds } = this.last;
    const highest = Math.max(...scores);
    const weights = Array.from(scores, (score) => Math.exp(score - highest));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const answer = scores.indexOf(highest);
    [...find("scores").children].forEach((item, index) => {
      const share = weights[index] / total;
      item.querySelector("i").style.width = `${100 * share}%`;
      item.querySelector(".share").textContent = `${(100 * share).toFixed(0)}%`;
      item.classList.toggle("answer", index === answer);
    });
    say("digits-status", `The network reads ${answer}, the digit is ${digit}; ` +
      `${milliseconds.toFixed(1)} ms with WebAssembly.`);
  }

  #draw() {
    if (!this.last) return;
    const canvas = find("sampling");
    canvas.width = canvas.height = (SIDE + 2 * BORDER) * SCALE;
    const context = canvas.getContext("2d");
    context.fillStyle = "#101018";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.setTransform(SCALE, 0, 0, SCALE, (BORDER + 0.5) * SCALE, (BORDER + 0.5) * SCALE);
    this.last.picture.forEach((ink, index) => {
      const grey = Math.round(255 * Math.min(Math.max((ink + 0.12) / 1.82, 0), 1));
      context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
      // A little larger than a pixel: no seams.
      context.fillRect((index % SIDE) - 0.5, Math.floor(index / SIDE) - 0.5, 1.05, 1.05);
    });
    context.lineWidth = 0.1;
    context.strokeStyle = "#707088";
    context.strokeRect(-0.5, -0.5, SIDE, SIDE);
    const shown = document.querySelector("[name=shown]:checked").value;
    this.last.pixels.forEach(([row, column], point) => {
      const colour = COLOURS[point];
      if (shown === "both") dots(context, this.last.seen[point], colour, 0.42);
      if (shown === "plain") dots(context, throughPlain(row, column), colour, 0.22);
      if (shown === "taps") {
        const moved = tapsOf(this.last.third, row, column);
        arrows(context, regularTaps(row, column, 2), moved, colour);
        dots(context, moved, colour, 0.55);
      }
      cross(context, row * 2 * STEP, column * 2 * STEP);
    });
  }
}

function dots(context, taps, colour, radius) {
  context.fillStyle = colour;
  for (const { y, x, weight } of taps) {
    context.beginPath();
    context.arc(x * STEP, y * STEP, 0.06 + radius * Math.sqrt(weight), 0, 2 * Math.PI);
    context.fill();
  }
}

function arrows(context, from, to, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 0.15;
  context.beginPath();
  from.forEach(({ y, x }, index) => {
    context.moveTo(x * STEP, y * STEP);
    context.lineTo(to[index].x * STEP, to[index].y * STEP);
  });
  context.stroke();
}

function cross(context, y, x) {
  context.strokeStyle = "#fff";
  context.lineWidth = 0.25;
  context.beginPath();
  context.moveTo(x - 0.8, y);
  context.lineTo(x + 0.8, y);
  context.moveTo(x, y - 0.8);
  context.lineTo(x, y + 0.8);
  context.stroke();
}
