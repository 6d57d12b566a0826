// The preprocessing record in a model file, with which `odt predict` prepares new photos and sounds.

const START = '{"format": "odt-preprocessing"';

/**
 * Writes the names of the classes into the record of a model file, in its place.
 *
 * @param {Uint8Array} model - the file, which is changed
 * @param {string[]} names - one for each output of the network
 */
export function nameClasses(model, names) {
  const at = find(model, new TextEncoder().encode(START));
  if (at < 0) return; // a model without a record
  const size = new DataView(model.buffer, model.byteOffset).getUint32(at - 4, true);
  const place = model.subarray(at, at + size);
  const record = JSON.parse(new TextDecoder().decode(place));
  const text = new TextEncoder().encode(JSON.stringify({ ...record, classes: names }));
  if (text.length > size) throw new RangeError("The names of the classes are too long.");
  place.fill(0x20).set(text);
}

function find(bytes, text) {
  for (let at = bytes.indexOf(text[0]); at >= 0; at = bytes.indexOf(text[0], at + 1)) {
    if (text.every((byte, k) => bytes[at + k] === byte)) return at;
  }
  return -1;
}
