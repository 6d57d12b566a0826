// Sounds as network inputs: odt's reader of WAV files, its resampling and its log-mel spectrogram.

/** Formats of WAV files that are read here; the browser decodes all others. */
const INTEGERS = 1;
const FLOATS = 3;
const EXTENSIBLE = 0xfffe;

/**
 * Reads a WAV file with samples of integers or floats.
 *
 * @param {ArrayBuffer} buffer - the file
 * @returns {{rate: number, channels: Float32Array[]} | null} null for other files
 */
export function readWave(buffer) {
  const view = new DataView(buffer);
  const name = (at) => String.fromCharCode(...new Uint8Array(buffer, at, 4));
  if (buffer.byteLength < 12 || name(0) !== "RIFF" || name(8) !== "WAVE") return null;
  let form = null;
  for (let at = 12; at + 8 <= buffer.byteLength; ) {
    const size = view.getUint32(at + 4, true);
    const body = at + 8;
    if (name(at) === "fmt " && size >= 16 && body + size <= buffer.byteLength) {
      const kind = view.getUint16(body, true);
      form = {
        kind: kind === EXTENSIBLE && size >= 26 ? view.getUint16(body + 24, true) : kind,
        channels: view.getUint16(body + 2, true),
        rate: view.getUint32(body + 4, true),
        width: view.getUint16(body + 14, true) >> 3,
      };
    }
    if (name(at) === "data") {
      return form && samples(view, body, Math.min(size, buffer.byteLength - body), form);
    }
    at = body + size + (size % 2);
  }
  return null;
}

function samples(view, at, size, { kind, channels, rate, width }) {
  const readers = {
    [`${INTEGERS} 1`]: (i) => (view.getUint8(i) - 128) / 128,
    [`${INTEGERS} 2`]: (i) => view.getInt16(i, true) / 2 ** 15,
    [`${INTEGERS} 3`]: (i) => (view.getUint16(i, true) / 2 ** 16 + view.getInt8(i + 2)) / 2 ** 7,
    [`${INTEGERS} 4`]: (i) => Math.fround(view.getInt32(i, true)) / 2 ** 31,
    [`${FLOATS} 4`]: (i) => view.getFloat32(i, true),
    [`${FLOATS} 8`]: (i) => view.getFloat64(i, true),
  };
  const read = readers[`${kind} ${width}`];
  const length = channels && width ? Math.floor(size / (channels * width)) : 0;
  if (!read || !rate || !length) return null;
  const result = Array.from({ length: channels }, () => new Float32Array(length));
  for (let n = 0; n < length; n++) {
    for (let c = 0; c < channels; c++) result[c][n] = read(at + (n * channels + c) * width);
  }
  return { rate, channels: result };
}

/**
 * Computes the input of a network.
 *
 * @param {{rate: number, channels: Float32Array[]}} sound
 * @param {object} settings - "sound" of odt's preprocessing record: rate, seconds, mel, frame, …
 * @returns {Float32Array} log-mel spectrogram in dB, (frames, bands); the loudest value is 0
 */
export function spectrogram(sound, settings) {
  const count = Math.round(settings.seconds * settings.rate);
  const clip = new Float32Array(count);
  clip.set(resample(mono(sound.channels), sound.rate, settings.rate, count));
  return logMel(clip, settings);
}

function mono(channels) {
  if (channels.length === 1) return channels[0];
  return channels[0].map((_, n) => channels.reduce((sum, c) => sum + c[n], 0) / channels.length);
}

const CROSSINGS = 64; // zero crossings of the sinc on each side
const STOP = 96; // dB
const TRANSITION = (STOP - 8) / (2.285 * 2 * CROSSINGS * Math.PI);

/** Resamples by a sinc under a Kaiser window; at most `most` samples from the beginning. */
function resample(x, from, to, most) {
  if (from === to) return x.subarray(0, most);
  const shared = divisor(from, to);
  const up = to / shared;
  const down = from / shared;
  const side = Math.ceil(CROSSINGS * Math.max(1, from / to));
  const count = Math.min(most, Math.ceil((x.length * to) / from));
  const tables = new Map();
  const y = new Float32Array(count);
  for (let n = 0; n < count; n++) {
    const middle = Math.floor((n * down) / up);
    const phase = (n * down) % up;
    if (!tables.has(phase)) tables.set(phase, kernel(phase / up, side, Math.min(1, up / down)));
    const weights = tables.get(phase);
    const first = middle - side + 1;
    let sum = 0;
    for (let k = Math.max(0, -first); k < weights.length && first + k < x.length; k++) {
      sum += x[first + k] * weights[k];
    }
    y[n] = sum;
  }
  return y;
}

function divisor(a, b) {
  return b ? divisor(b, a % b) : a;
}

/** The weights, with sum 1, of the samples around a time that is `phase` after the middle one. */
function kernel(phase, side, scale) {
  const weights = Float64Array.from({ length: 2 * side }, (_, k) => {
    const time = k + 1 - side - phase;
    const distance = (Math.abs(time) * scale) / CROSSINGS;
    if (distance >= 1) return 0;
    const angle = Math.PI * time * scale * (1 - TRANSITION / 2);
    return (angle ? Math.sin(angle) / angle : 1) * kaiser(distance);
  });
  const sum = weights.reduce((a, b) => a + b);
  return weights.map((w) => w / sum);
}

/** The Kaiser window at a distance of 0 … 1 from its middle: a Bessel function I0 as a series. */
function kaiser(distance) {
  const quarter = (0.1102 * (STOP - 8.7)) ** 2 * (1 - distance * distance) * 0.25;
  let term = 1;
  let sum = 1;
  for (let k = 1; term > 1e-17 * sum; k++) {
    term *= quarter / (k * k);
    sum += term;
  }
  return sum;
}

function logMel(x, settings) {
  const { frame, hop, mel, floor } = settings;
  const fitting = 1 + Math.floor((x.length - frame) / hop);
  const frames = settings.frames ? Math.min(settings.frames, fitting) : fitting;
  const { window, cosines, sines, bands } = tables(settings);
  const bins = (frame >> 1) + 1;
  const magnitudes = new Float64Array(bins);
  const part = new Float64Array(frame);
  const decibels = new Float64Array(frames * mel);
  for (let f = 0; f < frames; f++) {
    for (let n = 0; n < frame; n++) part[n] = x[f * hop + n] * window[n];
    for (let k = 0; k < bins; k++) {
      let real = 0;
      let imaginary = 0;
      for (let n = 0, at = 0; n < frame; n++, at = (at + k) % frame) {
        real += part[n] * cosines[at];
        imaginary += part[n] * sines[at];
      }
      magnitudes[k] = Math.hypot(real, imaginary);
    }
    for (let b = 0; b < mel; b++) {
      let sum = 0;
      for (let k = 0; k < bins; k++) sum += magnitudes[k] * bands[b][k];
      decibels[f * mel + b] = 10 * Math.log10(Math.max(sum * sum, 1e-10));
    }
  }
  const loudest = decibels.reduce((a, b) => Math.max(a, b), -Infinity);
  return Float32Array.from(decibels, (value) => Math.max(value - loudest, -floor));
}

let known = { key: "", tables: null };

/** Window, Fourier factors and bands: triangles of equal width in mel = 1125 ln(1 + f / 700). */
function tables(settings) {
  const key = JSON.stringify(settings);
  if (known.key === key) return known.tables;
  const { rate, frame, mel, low, high } = settings;
  const series = (length, value) => Float64Array.from({ length }, (_, n) => value(n));
  const [first, last] = [low, high].map((f) => 1125 * Math.log1p(f / 700));
  const edges = series(mel + 2, (n) =>
    700 * Math.expm1((first + (n * (last - first)) / (mel + 1)) / 1125),
  );
  const bands = Array.from({ length: mel }, (_, b) =>
    series((frame >> 1) + 1, (k) => {
      const hz = (k * rate) / frame;
      const rising = (hz - edges[b]) / (edges[b + 1] - edges[b]);
      const falling = (edges[b + 2] - hz) / (edges[b + 2] - edges[b + 1]);
      return Math.max(0, Math.min(rising, falling));
    }),
  );
  known = {
    key,
    tables: {
      window: series(frame, (n) => 0.54 - 0.46 * Math.cos((2 * Math.PI * n) / (frame - 1))),
      cosines: series(frame, (n) => Math.cos((2 * Math.PI * n) / frame)),
      sines: series(frame, (n) => Math.sin((2 * Math.PI * n) / frame)),
      bands,
    },
  };
  return known.tables;
}

/**
 * Standardizes the bands of a spectrogram.
 *
 * @param {Float32Array} values - (frames, bands)
 * @param {number[]} mean - of each band
 * @param {number[]} std - of each band
 * @returns {Float32Array} (frames, bands)
 */
export function standardized(values, mean, std) {
  return values.map((value, n) => (value - mean[n % mean.length]) / std[n % std.length]);
}
