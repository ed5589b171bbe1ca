// Where the deformable layers sample: the geometry of examples/deformable_digits/sampling.py.
// A layer is {taps: [h, w, 9, 2] y and x in pixels of its input, mask: [h, w, 9], height, width}.

export const SIDE = 28; // pixels of the picture
export const STEP = 2; // of them, from one pixel of the first layer's result to the next
const POINTS = [[0, -2.2], [0, 2.2]]; // of the digit that are followed: x, y in its 8x8 pixels

/** From two outputs of a model. */
export function layer(taps, mask) {
  const [height, width] = mask.dims;
  return { taps: taps.data, mask: mask.data, height, width };
}

/** The nine taps of one pixel: [{y, x, weight}, ...]. */
export function tapsOf({ taps, mask, width }, row, column) {
  const first = (row * width + column) * 9;
  return Array.from({ length: 9 }, (_, tap) => ({
    y: taps[2 * (first + tap)], x: taps[2 * (first + tap) + 1], weight: mask[first + tap],
  }));
}

/** Where a plain 3x3 convolution with padding 1 samples. */
export function regularTaps(row, column, stride) {
  return Array.from({ length: 9 }, (_, tap) => ({
    y: row * stride - 1 + Math.floor(tap / 3), x: column * stride - 1 + (tap % 3), weight: 1,
  }));
}

/** Half to even, as Python and PyTorch do. */
function round(value) {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/**
 * All that one pixel of the third layer's result sees through both layers. A tap of the third
 * layer lies between pixels of the second one's result: the taps of the nearest are taken, moved by
 * what is left. Taps outside see nothing.
 */
export function throughBoth(second, third, row, column) {
  const found = [];
  for (const middle of tapsOf(third, row, column)) {
    const [y, x] = [round(middle.y), round(middle.x)];
    if (y < 0 || y >= second.height || x < 0 || x >= second.width) continue;
    for (const tap of tapsOf(second, y, x)) {
      found.push({
        y: tap.y + (middle.y - y), x: tap.x + (middle.x - x), weight: tap.weight * middle.weight,
      });
    }
  }
  return found;
}

/** The same for plain layers. */
export function throughPlain(row, column) {
  return regularTaps(row, column, 2).flatMap(({ y, x }) => regularTaps(y, x, 1));
}

/** Rows and columns of the third layer's result that lie nearest to the points that are followed. */
export function followed({ side, degrees, centre: [right, down] }, { height, width }) {
  const angle = (degrees * Math.PI) / 180;
  const scale = side / 8;
  const middle = (SIDE - 1) / 2;
  const within = (value, size) => Math.min(Math.max(round(value / (2 * STEP)), 0), size - 1);
  return POINTS.map(([px, py]) => {
    const x = (px * Math.cos(angle) - py * Math.sin(angle)) * scale + right;
    const y = (px * Math.sin(angle) + py * Math.cos(angle)) * scale + down;
    return [within(middle + y, height), within(middle + x, width)];
  });
}
