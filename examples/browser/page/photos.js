// Photos as network inputs, with the arithmetic of odt's `--fit crop`: Pillow's bilinear filter,
// which averages over all pixels when it reduces, with weights of 22 bits after the point.

const PRECISION = 22;
const HALF = 1 << (PRECISION - 1);

/**
 * Crops a photo to the shape of the network's input and resizes it.
 *
 * @param {ImageData} image - the photo, RGBA
 * @param {number} width - of the result
 * @param {number} height - of the result
 * @returns {Uint8Array} RGB, (height, width, 3)
 */
export function resize(image, width, height) {
  const scale = Math.min(image.height / height, image.width / width);
  const left = (image.width - width * scale) / 2;
  const top = (image.height - height * scale) / 2;
  const across = filter(image.width, left, image.width - left, width);
  const down = filter(image.height, top, image.height - top, height);
  const first = down[0].start;
  const last = down[height - 1].start + down[height - 1].weights.length;
  const rows = new Uint8Array((last - first) * width * 3);
  for (let y = first; y < last; y++) {
    average(image.data, 4 * image.width * y, 4, across, rows, 3 * width * (y - first), 3);
  }
  const pixels = new Uint8Array(height * width * 3);
  for (const each of down) each.start -= first;
  for (let x = 0; x < width; x++) {
    average(rows, 3 * x, 3 * width, down, pixels, 3 * x, 3 * width);
  }
  return pixels;
}

/** The input pixels and integer weights of each output pixel along one axis. */
function filter(size, from, to, count) {
  const first = Math.fround(from); // Pillow's borders are float32
  const scale = Math.fround(Math.fround(to) - first) / count;
  const support = Math.max(scale, 1); // half of the triangle's width
  return Array.from({ length: count }, (_, k) => {
    const center = first + (k + 0.5) * scale;
    const start = Math.max(0, Math.trunc(center - support + 0.5));
    const end = Math.min(size, Math.trunc(center + support + 0.5));
    const weights = Array.from({ length: end - start }, (_, j) =>
      Math.max(0, 1 - Math.abs((j + start - center + 0.5) / support)),
    );
    const sum = weights.reduce((a, b) => a + b, 0);
    return { start, weights: weights.map((w) => Math.trunc(0.5 + (w / sum) * (1 << PRECISION))) };
  });
}

/** Filters one row or column of RGB values; strides are distances of pixels in the arrays. */
function average(source, at, stride, outputs, target, to, step) {
  outputs.forEach(({ start, weights }, k) => {
    let red = HALF;
    let green = HALF;
    let blue = HALF;
    let i = at + start * stride;
    for (const weight of weights) {
      red += source[i] * weight;
      green += source[i + 1] * weight;
      blue += source[i + 2] * weight;
      i += stride;
    }
    const o = to + k * step;
    target[o] = Math.min(255, red >> PRECISION);
    target[o + 1] = Math.min(255, green >> PRECISION);
    target[o + 2] = Math.min(255, blue >> PRECISION);
  });
}

/**
 * Scales pixels from 0 … 255 to 0 … 1 in float32, as odt's `--scale 0..1`.
 *
 * @param {Uint8Array} pixels - any shape
 * @returns {Float32Array} the same shape
 */
export function scaled(pixels) {
  return Float32Array.from(pixels, (value) => value / 255);
}
