// Reads Markdown beside the page: a text that takes too long costs only this worker.
//
// In:  a text. Out: its blocks, [{raw, node}]; null: it can't be read, for its depth or its size.
//      A node is a text, or {tag, kids, ...}: markdown.js makes elements of it.
// HTML is text here: nothing parses it.

importScripts("/page/marked.js");

const kMaxDepth = 64;
const kMaxNodes = 50000;
const kMaxLength = 400000;

const kEntities = new Map([
  ["amp", "&"], ["lt", "<"], ["gt", ">"], ["quot", "\""], ["apos", "'"], ["nbsp", "\u00a0"]]);

class PlainTokenizer extends marked.Tokenizer {
  html() {}
  tag() {}
}

function characterOf(code) {
  const isOne = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return String.fromCodePoint(isOne ? code : 0xfffd);
}

// The text that marked has escaped, and the character references that its writer meant.
function plain(text) {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]+));/g,
                      (whole, decimal, hex, name) => {
    if (name) return kEntities.get(name) ?? whole;
    return characterOf(decimal ? Number(decimal) : parseInt(hex, 16));
  });
}

class Reader {
  constructor() {
    this.numNodes = 0;
    this.depth = 0;
  }

  node(tag, kids, more = {}) {
    if (++this.numNodes > kMaxNodes) throw new RangeError("too many nodes");
    return {tag, kids, ...more};
  }

  within(read) {
    if (++this.depth > kMaxDepth) throw new RangeError("too deep");
    const kids = read();
    --this.depth;
    return kids;
  }

  all(tokens) {
    return this.within(() => (tokens ?? []).flatMap((token) => this.one(token)));
  }

  one(token) {
    switch (token.type) {
      case "space":
      case "def":
        return [];
      case "text":
        return token.tokens ? this.all(token.tokens) : [plain(token.text)];
      case "escape":
        return [plain(token.text)];
      case "codespan":
        return [this.node("code", [plain(token.text)])];
      case "em":
      case "strong":
      case "del":
      case "blockquote":
        return [this.node(token.type, this.all(token.tokens))];
      case "paragraph":
        return [this.node("p", this.all(token.tokens))];
      case "br":
      case "hr":
        return [this.node(token.type, [])];
      case "heading":
        return [this.node(`h${Math.min(token.depth + 3, 6)}`, this.all(token.tokens))];
      case "code":
        return [this.node("pre", [token.text], {language: plain(token.lang ?? "").split(" ")[0]})];
      case "link":
        return [this.link(token, this.all(token.tokens))];
      case "image":
        return [this.link(token, [plain(token.text) || token.href])];
      case "list":
        return [this.list(token)];
      case "table":
        return [this.table(token)];
      default:
        return [token.raw];
    }
  }

  // The page decides where a link may lead. Without a link, its own words are shown.
  link(token, kids) {
    return this.node("a", kids, {href: plain(token.href ?? ""), raw: token.raw});
  }

  list(token) {
    const items = token.items.map((item) => {
      const box = item.task ? [item.checked ? "☑ " : "☐ "] : [];
      return this.node("li", [...box, ...this.all(item.tokens)]);
    });
    const start = token.ordered ? {start: Number(token.start)} : {};
    return this.node(token.ordered ? "ol" : "ul", items, start);
  }

  table(token) {
    const row = (cells, tag) => this.node("tr", cells.map(
      (cell, i) => this.node(tag, this.all(cell.tokens), {align: token.align[i]})));
    return this.node("table", [
      this.node("thead", [row(token.header, "th")]),
      this.node("tbody", token.rows.map((cells) => row(cells, "td")))]);
  }
}

function blocksOf(text) {
  if (text.length > kMaxLength) return null;
  const lexer = new marked.Lexer({...marked.defaults, mangle: false, headerIds: false,
                                  tokenizer: new PlainTokenizer()});
  const reader = new Reader();
  return lexer.lex(text.replaceAll("\0", "\ufffd"))
    .flatMap((token) => reader.one(token).map((node) => ({raw: token.raw, node})));
}

onmessage = ({data}) => {
  let blocks = null;
  try {
    blocks = blocksOf(data);
  } catch {
    // Too deep for the stack, or beyond the limits.
  }
  postMessage(blocks);
};
