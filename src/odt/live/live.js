"use strict";
// Asks the server for what has changed, and sends it dropped files. All text of the server is
// escaped there; the policy of the page forbids scripts within it.
const PERIOD = 1000, HIDDEN_PERIOD = 5000; // milliseconds between two questions
const MAX_FILES = 8, MAX_RESULTS = 20;
const at = id => document.getElementById(id);
const evaluated = []; // version at which the samples of each run were asked for
let version = "";
let ended = []; // for each run, whether its training has ended

function put(element, html) {
  if (element.shown === html) return;
  const open = [...element.querySelectorAll("details")].map(details => details.open);
  element.innerHTML = html;
  element.shown = html;
  element.querySelectorAll("details").forEach((details, k) => { if (open[k]) details.open = true; });
}

async function showSamples() {
  for (let k = 0; k < ended.length; k++) {
    const folded = at(`samples-${k}`).closest("details:not([open])");
    if (!ended[k] || folded || evaluated[k] === version) continue;
    evaluated[k] = version;
    const answer = await fetch(`samples?run=${k}`);
    const text = await answer.text();
    if (answer.ok) put(at(`samples-${k}`), text);
    else at(`samples-${k}`).replaceChildren(message(text));
  }
}

async function refresh() {
  const answer = await fetch(`state?since=${version}`);
  if (answer.status === 204) return;
  if (!answer.ok) throw new Error(await answer.text());
  const state = await answer.json();
  version = state.version;
  for (const [id, html] of Object.entries(state.parts)) if (at(id)) put(at(id), html);
  ended = state.ended;
  const all = ended.every(Boolean);
  at("connection").textContent =
    `${all ? "Complete" : "Live"}; last change at ${new Date().toLocaleTimeString()}.`;
  showSamples();
}

async function follow() {
  try {
    await refresh();
    document.body.classList.remove("lost");
  } catch {
    version = ""; // asks for everything again when the server is back
    document.body.classList.add("lost");
    at("connection").textContent = "No connection: odt report --live has stopped.";
  }
  setTimeout(follow, document.hidden ? HIDDEN_PERIOD : PERIOD);
}

function message(text) {
  const element = document.createElement("p");
  element.className = "warning";
  element.textContent = text;
  return element;
}

async function send(path, query, body) {
  const choice = at("model") ? at("model").value : "0";
  const options = at("model") ? [...at("model").options].filter(o => o.value !== "all") : [];
  const runs = choice === "all" ? options.map(o => o.value) : [choice];
  const group = document.createElement("div");
  at("results").prepend(group);
  while (at("results").children.length > MAX_RESULTS) at("results").lastChild.remove();
  group.textContent = "Computing …";
  const parts = [];
  for (const run of runs) {
    const part = document.createElement("div");
    if (options.length) {
      part.append(document.createElement("h3"));
      part.firstChild.textContent = options[Number(run)].textContent;
    }
    try {
      const answer = await fetch(`${path}?run=${run}${query}`, { method: "POST", body });
      const text = await answer.text();
      if (answer.ok) part.insertAdjacentHTML("beforeend", text);
      else part.append(message(text));
    } catch {
      part.append(message("No connection: odt report --live has stopped."));
    }
    parts.push(part);
  }
  group.replaceChildren(...parts);
}

async function sendFiles(files) {
  for (const file of [...files].slice(0, MAX_FILES)) {
    const most = Number(at("files").dataset.most);
    if (file.size > most) {
      at("results").prepend(message(`${file.name}: must have at most ${most >> 20} MB.`));
    } else {
      await send("predict", `&name=${encodeURIComponent(file.name)}`, file);
    }
  }
}

function dragging(event, on) {
  event.preventDefault();
  at("drop").classList.toggle("over", on);
}

addEventListener("dragover", event => dragging(event, true));
addEventListener("dragleave", event => dragging(event, false));
addEventListener("drop", event => {
  dragging(event, false);
  sendFiles(event.dataTransfer.files);
});
at("files").addEventListener("change", async event => {
  const files = [...event.target.files];
  event.target.value = ""; // so that the same file can be chosen again
  await sendFiles(files);
});
if (at("row")) {
  at("row").addEventListener("submit", event => {
    event.preventDefault();
    const cells = Object.fromEntries(new FormData(event.target));
    send("row", "", JSON.stringify(cells));
  });
}
document.querySelectorAll("details.run").forEach(run => run.addEventListener("toggle", showSamples));
follow();
