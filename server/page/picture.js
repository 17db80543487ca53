// The picture: which tokens each head attended to when a token of an answer was chosen. A line for
// each head of a layer, or for each layer; a column for each token, or for as many as fit one. What
// it shows can be read as text, too.

import {byId, make, say} from "/page/dom.js";
import {bytes, count, percent} from "/page/format.js";
import {askJson} from "/page/server.js";

const kMaxColumns = 256;
const kListed = 64;  // Tokens that the server tells of each head.
const kShown = 12;  // Tokens in words.
const kAround = 4;  // Tokens that are shown on either side of one.
const kMaxWords = 60;  // Letters of a column's tokens.

let subject = null;  // {messages, context, plan}
let told = null;  // What the server says of it.
let lines = [];  // {name, weights: Map(token -> weight), critical: Set or null}
let cell = {line: 0, column: 0};
let asked = 0;  // Requests so far: answers to older ones are not shown.

const onOneLine = (text) => text.replaceAll("\n", "⏎");
const wordsOf = (text) => `“${onOneLine(text)}”`;
const layer = () => byId("picture-layer").value;

const tokensPerColumn = () => Math.ceil(told.tokens.length / kMaxColumns);
const numColumns = () => Math.ceil(told.tokens.length / tokensPerColumn());

// The tokens of a column: [first, end).
function tokensOf(column) {
  const first = column * tokensPerColumn();
  return [first, Math.min(first + tokensPerColumn(), told.tokens.length)];
}

function lineOf(name, heads) {
  const weights = new Map();
  for (const head of heads) {
    head.tokens.forEach((token, i) => {
      weights.set(token, (weights.get(token) ?? 0) + head.weights[i] / heads.length);
    });
  }
  const searched = heads.length === 1 && heads[0].critical;
  return {name, weights, critical: searched ? new Set(heads[0].critical) : null};
}

function makeLines() {
  if (layer() === "all") {
    lines = told.layers.filter(({heads}) => heads.length > 0)
      .map((each) => lineOf(`layer ${each.layer}, mean of its heads`, each.heads));
  } else {
    lines = told.layers[layer()].heads
      .map((head, i) => lineOf(`layer ${layer()}, head ${i}`, [head]));
  }
}

function columnsOf(line) {
  const columns = new Float32Array(numColumns());
  for (const [token, weight] of line.weights) {
    columns[Math.floor(token / tokensPerColumn())] += weight;
  }
  return columns;
}

// A pixel for each cell, which the browser scales: weights that differ tenfold still show.
function draw() {
  const heat = byId("heat");
  heat.width = numColumns();
  heat.height = lines.length;
  heat.style.height = `${Math.min(lines.length, 30) * (lines.length > 16 ? 11 : 18)}px`;
  const [red, green, blue] = getComputedStyle(heat).color.match(/\d+/g).map(Number);
  const image = new ImageData(heat.width, heat.height);
  lines.forEach((line, i) => columnsOf(line).forEach((weight, column) => {
    const alpha = Math.sqrt(Math.min(weight, 1)) * 255;
    image.data.set([red, green, blue, alpha], 4 * (i * heat.width + column));
  }));
  heat.getContext("2d").putImageData(image, 0, 0);
}

function showCell() {
  const [first, end] = tokensOf(cell.column);
  const line = lines[cell.line];
  const words = told.tokens.slice(first, end).join("");
  const cut = words.length > kMaxWords ? `${words.slice(0, kMaxWords)}…` : words;
  const which = end - first === 1 ? `token ${first}` : `tokens ${first} to ${end - 1}`;
  say(byId("heat-says"), `${line.name}, ${which} ${wordsOf(cut)}: ` +
      percent(columnsOf(line)[cell.column]));
  const mark = byId("heat-cell").style;
  mark.left = `${100 * cell.column / numColumns()}%`;
  mark.width = `${100 / numColumns()}%`;
  mark.top = `${100 * cell.line / lines.length}%`;
  mark.height = `${100 / lines.length}%`;
}

// A token where it stands: the tokens around it are faint.
function inItsPlace(token) {
  const textOf = (first, end) => onOneLine(told.tokens.slice(Math.max(first, 0), end).join(""));
  return make("th", {scope: "row", className: "name"},
              make("span", {className: "help"}, textOf(token - kAround, token)),
              make("strong", {}, textOf(token, token + 1)),
              make("span", {className: "help"}, textOf(token + 1, token + 1 + kAround)));
}

function showHeaviest() {
  const line = lines[cell.line];
  const heaviest = [...line.weights].sort((a, b) => b[1] - a[1]).slice(0, kShown);
  const sum = heaviest.reduce((all, [, weight]) => all + weight, 0);
  say(byId("heaviest-of"), `What weighs most in ${line.name}: ${percent(sum)} of its attention`);
  // A plan that does not search selects nothing.
  byId("heaviest-selected").hidden = line.critical === null;
  byId("heaviest").replaceChildren(...heaviest.map(([token, weight]) => {
    const selected = line.critical?.has(token) ? "selected" : "";
    return make("tr", {}, inItsPlace(token),
                make("td", {className: "tokens"}, count(token)),
                make("td", {className: "tokens"}, percent(weight)),
                make("td", {hidden: line.critical === null}, selected));
  }));
}

function showPlan() {
  const explained = told.explain.layers[layer() === "all" ? 0 : layer()];
  say(byId("plan-of"), `Layer ${explained.layer}, whose plan is ${explained.plan}`);
  const substitutes = explained.substitutes.map(
    (each) => `${each.ran} instead of ${each.wanted}: ${each.because}`).join("; ");
  byId("plan-rows").replaceChildren(...explained.heads.map((head) => make("tr", {},
    make("th", {scope: "row"}, String(head.kv_head)), make("td", {}, head.ran),
    make("td", {}, bytes(head.bytes_touched)),
    make("td", {}, head.reason || (head.ran === head.plan ? "as planned" : substitutes)))));
}

function move(line, column) {
  const was = cell.line;
  cell = {line: Math.min(Math.max(line, 0), lines.length - 1),
          column: Math.min(Math.max(column, 0), numColumns() - 1)};
  showCell();
  if (cell.line !== was) showHeaviest();
}

function showLayer() {
  makeLines();
  draw();
  move(cell.line, cell.column);
  showHeaviest();
  showPlan();
}

function changeLayer(step) {
  const select = byId("picture-layer");
  const to = select.selectedIndex + step;
  if (to < 0 || to >= select.length) return;
  select.selectedIndex = to;
  showLayer();
}

function showSubject() {
  const number = Number(byId("picture-token").value);
  byId("picture-token").max = told.reply_tokens;
  say(byId("picture-says"), `When ${wordsOf(told.next)} was chosen, token ${number} of the ` +
      `answer's ${told.reply_tokens}, over the ${count(told.num_tokens)} tokens before it, of ` +
      `which ${count(told.cached_tokens)} were in memory or stored.`);
  const was = layer();
  byId("picture-layer").replaceChildren(
    make("option", {value: "all"}, "all, a line each"),
    ...told.layers.filter(({heads}) => heads.length > 0)
      .map((each) => make("option", {value: each.layer}, String(each.layer))));
  byId("picture-layer").value = was || "all";
  byId("picture-shown").hidden = false;
  showLayer();
}

async function load() {
  const mine = ++asked;
  say(byId("picture-says"), "Asks the model …");
  const body = {...subject, token: Number(byId("picture-token").value) - 1, top: kListed};
  try {
    const answer = await askJson("/attndb/v1/explain", {method: "POST", body});
    if (mine !== asked) return;
    told = answer;
    showSubject();
  } catch (error) {
    if (mine !== asked) return;
    byId("picture-shown").hidden = true;
    say(byId("picture-says"), error.message);
  }
}

// Shows what an answer attended to: `messages` ends with it.
export function openPicture({messages, context, plan}) {
  subject = {messages, context, plan};
  cell = {line: 0, column: 0};
  byId("picture-shown").hidden = true;
  byId("picture-token").value = 1;
  byId("picture").showModal();
  load();
}

const kMoves = {
  ArrowLeft: () => move(cell.line, cell.column - 1),
  ArrowRight: () => move(cell.line, cell.column + 1),
  ArrowUp: () => move(cell.line - 1, cell.column),
  ArrowDown: () => move(cell.line + 1, cell.column),
  Home: () => move(cell.line, 0),
  End: () => move(cell.line, numColumns() - 1),
  PageUp: () => changeLayer(-1),
  PageDown: () => changeLayer(1),
};

export function setUpPicture() {
  const heat = byId("heat");
  heat.addEventListener("keydown", (event) => {
    const step = kMoves[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step();
  });
  heat.addEventListener("mousemove", (event) => {
    move(Math.floor(event.offsetY / heat.clientHeight * lines.length),
         Math.floor(event.offsetX / heat.clientWidth * numColumns()));
  });
  byId("picture-layer").addEventListener("change", showLayer);
  byId("picture-token").addEventListener("change", load);
  byId("picture-close").addEventListener("click", () => byId("picture").close());
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", () => byId("picture").open && told && draw());
}
