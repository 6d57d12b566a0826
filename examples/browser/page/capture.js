// Photos of the camera and sounds of the microphone, in a dialog.

const RATE = 48000; // Hz, at which the browser decodes what is no WAV file
const SECONDS = 1.2; // of a recording, of which the network gets the first second

const $ = (id) => document.getElementById(id);
const dialog = $("capture");

/**
 * Decodes a sound file of any kind that the browser plays.
 *
 * @param {ArrayBuffer} bytes
 * @returns {Promise<{rate: number, channels: Float32Array[]}>}
 */
export async function decodeSound(bytes) {
  const audio = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(bytes);
  const channels = Array.from({ length: audio.numberOfChannels }, (_, k) => audio.getChannelData(k));
  return { rate: audio.sampleRate, channels };
}

/**
 * Opens the dialog, and passes on each photo or sound.
 *
 * @param {"image" | "sound"} kind
 * @param {string} title - of the dialog
 * @param {(source: object) => void} onSource - called with a source for the worker
 * @returns {Promise<void>} when the dialog is closed
 * @throws {Error} if there is no camera or microphone, or its use is denied
 */
export function capture(kind, title, onSource) {
  const run = last.then(() => show(kind, title, onSource));
  last = run.catch(() => {});
  return run;
}

let last = Promise.resolve(); // the end of the dialog that was opened before

async function show(kind, title, onSource) {
  const isPhoto = kind === "image";
  const device = isPhoto ? "camera" : "microphone";
  let stream;
  try {
    const wanted = isPhoto ? { video: { facingMode: "environment" } } : { audio: true };
    stream = await navigator.mediaDevices.getUserMedia(wanted);
  } catch {
    throw new Error(`The ${device} cannot be used: there is none, or the browser was told not to.`);
  }
  $("capture-title").textContent = title;
  $("capture-status").textContent = "";
  $("shoot").textContent = isPhoto ? "Take a photo" : "Record one second";
  $("video").hidden = !isPhoto;
  if (isPhoto) {
    $("video").srcObject = stream;
    await $("video").play();
  }
  let count = 0;
  $("shoot").onclick = async () => {
    $("shoot").disabled = true;
    if (!isPhoto) $("capture-status").textContent = "Speak now.";
    try {
      onSource(isPhoto ? await shot() : await recording(stream));
      count += 1;
      const what = isPhoto ? "photo" : "recording";
      $("capture-status").textContent = `${count} ${what}${count === 1 ? "" : "s"}.`;
    } catch {
      $("capture-status").textContent = `The ${device} gave nothing. Try again.`;
    }
    $("shoot").disabled = false;
    $("shoot").focus();
  };
  $("capture-done").onclick = () => dialog.close();
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  stream.getTracks().forEach((track) => track.stop());
  $("video").srcObject = null;
}

/** Takes a photo; returns it as a source for the worker. */
async function shot() {
  return { name: "photo", image: await createImageBitmap($("video")) };
}

/** Records a sound; returns it as a source for the worker. */
async function recording(stream) {
  const recorder = new MediaRecorder(stream);
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const stopped = new Promise((resolve) => (recorder.onstop = resolve));
  recorder.start();
  setTimeout(() => recorder.stop(), 1000 * SECONDS);
  await stopped;
  const samples = await decodeSound(await new Blob(parts).arrayBuffer());
  return { name: "recording", samples };
}
