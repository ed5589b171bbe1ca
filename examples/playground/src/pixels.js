// Between the pixels of a canvas and the tensors of a model.

/** RGBA of 0 to 255 -> float32 [1, 3, height, width] of 0 to 1; alpha is left out. */
export function toPlanes(pixels, width, height) {
  const size = width * height;
  const planes = new Float32Array(3 * size);
  for (let index = 0; index < size; index++) {
    for (let channel = 0; channel < 3; channel++) {
      planes[channel * size + index] = pixels[4 * index + channel] / 255;
    }
  }
  return planes;
}

/** float32 [1, 3, height, width] of 0 to 1 -> RGBA; clipped, and rounded half to even. */
export function toPixels(planes, [, , height, width]) {
  const size = width * height;
  const pixels = new Uint8ClampedArray(4 * size);
  for (let index = 0; index < size; index++) {
    for (let channel = 0; channel < 3; channel++) {
      pixels[4 * index + channel] = Math.fround(planes[channel * size + index] * 255);
    }
    pixels[4 * index + 3] = 255;
  }
  return pixels;
}
