// Shows Markdown: elements of this list alone, texts as texts, links to the web and to mail alone.
//
// A text that takes longer than kLimitMs, or is beyond the worker's limits, is shown as it is.

import {make} from "/page/dom.js";

const kLimitMs = 4000;
const kTags = new Set([
  "p", "h4", "h5", "h6", "em", "strong", "del", "code", "blockquote", "br", "hr", "ul", "ol", "li",
  "table", "thead", "tbody", "tr", "th", "td"]);
const kAligns = new Set(["left", "center", "right"]);
const kProtocols = new Set(["http:", "https:", "mailto:"]);

let worker = null;
let last = Promise.resolve();  // Resolves when the texts before are read.

// The blocks of a text; null: it is to be shown as it is.
function readNow(text) {
  worker ??= new Worker("/page/markdown_worker.js");
  const own = worker;
  return new Promise((resolve) => {
    const end = (blocks, isBroken) => {
      clearTimeout(timer);
      if (isBroken) {
        own.terminate();
        worker = null;
      }
      resolve(blocks);
    };
    const timer = setTimeout(() => end(null, true), kLimitMs);
    own.onmessage = ({data}) => end(data, false);
    own.onerror = () => end(null, true);
    own.postMessage(text);
  });
}

function read(text) {
  last = last.then(() => readNow(text));
  return last;
}

// The address, if a link may lead there.
export function safeLink(href) {
  try {
    const url = new URL(href);
    return kProtocols.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

// A block of code with its language, and a button that copies it.
export function makeCode(text, language = "") {
  const copy = make("button", {type: "button", className: "copy"}, "Copy");
  copy.onclick = async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  };
  return make("div", {className: "code"},
              make("div", {className: "code-head"}, make("span", {}, language),
                   ...(navigator.clipboard ? [copy] : [])),
              make("pre", {dir: "auto"}, make("code", {}, text)));
}

function makeLink({href, raw, kids}) {
  const url = safeLink(href);
  if (url === null) return document.createTextNode(raw);
  return make("a", {href: url, target: "_blank", rel: "noopener noreferrer", dir: "auto"},
              ...kids.map(makeNode));
}

function makeNode(node) {
  if (typeof node === "string") return document.createTextNode(node);
  if (node.tag === "a") return makeLink(node);
  if (node.tag === "pre") return makeCode(node.kids[0], node.language);
  if (!kTags.has(node.tag)) return document.createTextNode("");
  const element = make(node.tag, {}, ...node.kids.map(makeNode));
  if (node.tag === "ol" && node.start > 1) element.start = node.start;
  if (kAligns.has(node.align)) element.className = `align-${node.align}`;
  if (node.tag === "table") return make("div", {className: "scroll"}, element);
  // Marks that turn the direction of a line end with its block.
  element.dir = "auto";
  return element;
}

// A text that may grow. What does not change keeps its elements.
export class MarkdownView {
  constructor(body) {
    this.body = body;
    this.shown = [];  // [{raw, element}]
    this.wanted = null;  // A later text, while one is being read.
    this.isPlain = false;
    this.done = null;  // Resolves when the last text is shown; null: nothing is being read.
  }

  // Resolves when this text, or a later one, is shown.
  show(text) {
    this.wanted = text;
    this.done ??= this.showWanted();
    return this.done;
  }

  async showWanted() {
    while (this.wanted !== null) {
      const text = this.wanted;
      this.wanted = null;
      const blocks = this.isPlain ? null : await read(text);
      if (blocks === null) this.showPlain(text);
      else this.place(blocks);
    }
    this.done = null;
  }

  showPlain(text) {
    this.isPlain = true;  // A longer text takes no less time.
    this.shown = [];
    this.body.classList.add("plain");
    this.body.textContent = text;
  }

  place(blocks) {
    let same = 0;
    while (same < blocks.length && this.shown[same]?.raw === blocks[same].raw) ++same;
    for (const {element} of this.shown.splice(same)) element.remove();
    for (const {raw, node} of blocks.slice(same)) {
      const element = makeNode(node);
      this.shown.push({raw, element});
      this.body.append(element);
    }
  }
}
