/**
 * The inside of a paragraph: code, links, emphasis. CommonMark's delimiter algorithm
 * (https://spec.commonmark.org/0.31.2/#phase-2-inline-structure), with stacks that only shrink, so time stays linear.
 */
import { decodeEntity, safeUrl } from "./markdown_links.js";

/**
 * @typedef {string | {type: "code", text: string} | {type: "break"} | {type: "em"|"strong"|"del", children: Inline[]}
 *   | {type: "link", href: string, children: Inline[]}} Inline
 */

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const SPECIAL = /[\\`*_~[\]!<&\n:]/g;
const MAX_DESTINATION = 2_048;
const MAX_INLINE_DEPTH = 24;

/** @returns {Inline[]} */
export function parseInline(text) {
  const nodes = scan(text);
  return depthLimited(emphasised(nodes, 0), 0);
}

/** Nodes in order; delimiter runs and brackets stay marked until they are paired. */
function scan(text) {
  const nodes = [];
  const brackets = [];
  const ticks = tickRuns(text);
  let at = 0;
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const found = SPECIAL.exec(text)?.index ?? text.length;
    if (found > at) nodes.push(text.slice(at, found));
    if (found >= text.length) break;
    at = readSpecial(text, found, { nodes, brackets, ticks });
  }
  return nodes.map((node) => (node.type === "bracket" ? node.text : node));
}

function readSpecial(text, at, state) {
  const { nodes } = state;
  switch (text[at]) {
    case "\\":
      return readEscape(text, at, nodes);
    case "`":
      return readCode(text, at, state);
    case "*":
    case "_":
    case "~":
      return readDelimiters(text, at, nodes);
    case "!":
      return text[at + 1] === "[" ? openBracket(text, at, 2, state) : plain(text, at, 1, nodes);
    case "[":
      return openBracket(text, at, 1, state);
    case "]":
      return closeBracket(text, at, state);
    case "<":
      return readAutolink(text, at, nodes);
    case "&":
      return readEntity(text, at, nodes);
    case ":":
      return readBareUrl(text, at, nodes);
    default:
      return readLineEnd(text, at, nodes);
  }
}

function plain(text, at, length, nodes) {
  nodes.push(text.slice(at, at + length));
  return at + length;
}

function readEscape(text, at, nodes) {
  const next = text[at + 1];
  if (next === "\n") {
    nodes.push({ type: "break" });
    return at + 2;
  }
  if (next && PUNCTUATION.test(next)) {
    nodes.push(next);
    return at + 2;
  }
  return plain(text, at, 1, nodes);
}

function readLineEnd(text, at, nodes) {
  const last = nodes.at(-1);
  const hard = typeof last === "string" && / {2,}$/.test(last);
  if (typeof last === "string") nodes[nodes.length - 1] = last.trimEnd();
  nodes.push(hard ? { type: "break" } : "\n");
  let next = at + 1;
  while (text[next] === " ") next += 1;
  return next;
}

/** Where each length of backtick run occurs, so that an unmatched run costs nothing later. */
function tickRuns(text) {
  const runs = new Map();
  for (const match of text.matchAll(/`+/g)) {
    const length = match[0].length;
    if (!runs.has(length)) runs.set(length, { places: [], next: 0 });
    runs.get(length).places.push(match.index);
  }
  return runs;
}

function readCode(text, at, { nodes, ticks }) {
  let length = 1;
  while (text[at + length] === "`") length += 1;
  const runs = ticks.get(length);
  while (runs && runs.next < runs.places.length && runs.places[runs.next] <= at) runs.next += 1;
  const close = runs?.places[runs.next];
  if (close === undefined) return plain(text, at, length, nodes);
  let code = text.slice(at + length, close).replaceAll("\n", " ");
  if (code.startsWith(" ") && code.endsWith(" ") && code.trim()) code = code.slice(1, -1);
  nodes.push({ type: "code", text: code });
  return close + length;
}

function readDelimiters(text, at, nodes) {
  const mark = text[at];
  let end = at + 1;
  while (text[end] === mark) end += 1;
  const length = end - at;
  if (mark === "~" && length !== 2) return plain(text, at, length, nodes);
  nodes.push({ type: "delimiter", mark, length, original: length, ...flanking(text, at, end, mark) });
  return end;
}

function flanking(text, at, end, mark) {
  const before = at === 0 ? " " : charBefore(text, at);
  const after = end >= text.length ? " " : String.fromCodePoint(text.codePointAt(end));
  const left = !isSpace(after) && (!isPunctuation(after) || isSpace(before) || isPunctuation(before));
  const right = !isSpace(before) && (!isPunctuation(before) || isSpace(after) || isPunctuation(after));
  if (mark !== "_") return { opens: left, closes: right };
  return { opens: left && (!right || isPunctuation(before)), closes: right && (!left || isPunctuation(after)) };
}

function charBefore(text, at) {
  const low = text.charCodeAt(at - 1);
  return low >= 0xdc00 && low <= 0xdfff && at > 1 ? text.slice(at - 2, at) : text[at - 1];
}

function isSpace(char) {
  return /\s/u.test(char);
}

/** Full-width punctuation joins like a letter: in Chinese no blank stands beside it, and emphasis must still close. */
function isPunctuation(char) {
  return /[\p{P}\p{S}]/u.test(char) && !/[\u2018-\u201d\u2026\u3000-\u303f\uff00-\uffef]/.test(char);
}

function openBracket(text, at, length, { nodes, brackets }) {
  const node = { type: "bracket", text: text.slice(at, at + length), image: length === 2 };
  brackets.push({ node, index: nodes.length });
  nodes.push(node);
  return at + length;
}

/** `]` takes the nearest `[`: a link where a destination follows and is allowed, else plain text. */
function closeBracket(text, at, { nodes, brackets }) {
  const open = brackets.pop();
  if (!open) return plain(text, at, 1, nodes);
  const destination = text[at + 1] === "(" ? readDestination(text, at + 2) : null;
  const href = destination && safeUrl(destination.url);
  if (!href) return plain(text, at, 1, nodes);
  const inner = nodes.splice(open.index).slice(1).map((node) => (node.type === "bracket" ? node.text : node));
  const children = withoutLinks(emphasised(inner, 0));
  nodes.push({ type: "link", href, children: children.length ? children : [href] });
  if (!open.node.image) brackets.length = 0;
  return destination.end;
}

function withoutLinks(nodes) {
  return nodes.flatMap((node) => {
    if (node.type === "link") return node.children;
    return node.children ? [{ ...node, children: withoutLinks(node.children) }] : [node];
  });
}

/** `url "title")` behind `](`; null where it is none. */
function readDestination(text, from) {
  const part = text.slice(from, from + MAX_DESTINATION);
  if (!part.includes(")")) return null;
  const match = /^\s*(?:<([^<>\n]*)>|([^\s<][^\s]*?))?(?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*\)$/.exec(balanced(part));
  if (!match) return null;
  return { url: unescaped(match[1] ?? match[2] ?? ""), end: from + match[0].length };
}

/** The text up to the parenthesis that closes the destination; parentheses inside it must balance. */
function balanced(part) {
  let depth = 0;
  let quoted = "";
  for (let at = 0; at < part.length; at += 1) {
    const char = part[at];
    if (char === "\\") at += 1;
    else if (quoted) quoted = char === quoted ? "" : quoted;
    else if ((char === '"' || char === "'") && /\s/.test(part[at - 1] ?? "")) quoted = char;
    else if (char === "(") depth += 1;
    else if (char === ")" && depth-- === 0) return part.slice(0, at + 1);
    else if (char === "\n" && part[at + 1] === "\n") break;
  }
  return "";
}

function unescaped(url) {
  return url.replace(/\\([!-/:-@[-`{-~])/g, "$1").replace(/&#?\w{1,31};/g, (entity) => decodeEntity(entity) ?? entity);
}

function readAutolink(text, at, nodes) {
  const match = /^<(https?:\/\/[^\s<>]{1,2000})>/i.exec(text.slice(at, at + MAX_DESTINATION));
  const href = match && safeUrl(match[1]);
  if (!href) return plain(text, at, 1, nodes);
  nodes.push({ type: "link", href, children: [match[1]] });
  return at + match[0].length;
}

function readEntity(text, at, nodes) {
  const match = /^&#?\w{1,31};/.exec(text.slice(at, at + 34));
  const char = match && decodeEntity(match[0]);
  if (!char) return plain(text, at, 1, nodes);
  nodes.push(char);
  return at + match[0].length;
}

/** `https://…` in running text, without the punctuation that ends the sentence. */
function readBareUrl(text, at, nodes) {
  const last = nodes.at(-1);
  const scheme = typeof last === "string" && text.startsWith("://", at) ? /(?:^|[^\p{L}\p{N}])(https?)$/iu.exec(last)?.[1] : null;
  if (!scheme) return plain(text, at, 1, nodes);
  const rest = /^[^\s<>"'`\]\u3000-\u303f\uff00-\uff65]*/.exec(text.slice(at, at + MAX_DESTINATION))[0].replace(/(?:[.,;:!?*_~]|\)(?![^(]*\())+$/, "");
  const href = safeUrl(scheme + rest);
  if (!href) return plain(text, at, 1, nodes);
  nodes[nodes.length - 1] = last.slice(0, -scheme.length);
  nodes.push({ type: "link", href, children: [scheme + rest] });
  return at + rest.length;
}

/** Pairs the delimiter runs of one level; openers that can match no more are never looked at again. */
function emphasised(source, from) {
  const out = source.slice(0, from);
  const openers = [];
  const floors = {};
  for (const node of source.slice(from)) {
    if (node.type !== "delimiter") {
      out.push(node);
      continue;
    }
    const left = node.closes ? closeRun({ ...node }, out, openers, floors) : { ...node };
    if (left.length > 0) {
      if (left.opens) openers.push(out.length);
      out.push(left);
    }
  }
  return out.map((node) => (node.type === "delimiter" ? node.mark.repeat(node.length) : node)).filter((node) => node !== "");
}

/** Closes as much of `run` as finds an opener; returns what is left of it. */
function closeRun(run, out, openers, floors) {
  while (run.length > 0) {
    const key = `${run.mark}${run.opens}${run.original % 3}`;
    const place = findOpener(run, out, openers, floors[key] ?? 0);
    if (place < 0) {
      floors[key] = openers.length;
      return run;
    }
    const index = openers[place];
    const opener = out[index];
    const width = run.mark === "~" || (opener.length >= 2 && run.length >= 2) ? 2 : 1;
    const children = out.splice(index + 1).map((node) => (node.type === "delimiter" ? node.mark.repeat(node.length) : node));
    openers.length = place + 1;
    opener.length -= width;
    run.length -= width;
    if (opener.length === 0) {
      out.pop();
      openers.pop();
    }
    for (const each of Object.keys(floors)) floors[each] = Math.min(floors[each], openers.length);
    out.push({ type: run.mark === "~" ? "del" : width === 2 ? "strong" : "em", children });
  }
  return run;
}

function findOpener(run, out, openers, floor) {
  for (let place = openers.length - 1; place >= floor; place -= 1) {
    const opener = out[openers[place]];
    if (opener.mark !== run.mark) continue;
    const odd = (opener.closes || run.opens) && (opener.original + run.original) % 3 === 0;
    if (!odd || (opener.original % 3 === 0 && run.original % 3 === 0)) return place;
  }
  return -1;
}

/** Deeper than anyone writes becomes its text: the drawing of it must not exhaust the stack. */
function depthLimited(nodes, depth) {
  return merged(
    nodes.map((node) => {
      if (!node.children) return node;
      return depth < MAX_INLINE_DEPTH ? { ...node, children: depthLimited(node.children, depth + 1) } : flatText(node);
    }),
  );
}

function flatText(node) {
  const open = [node];
  let text = "";
  while (open.length) {
    const next = open.pop();
    if (typeof next === "string") text += next;
    else if (next.children) open.push(...next.children.toReversed());
    else text += next.text ?? "\n";
  }
  return text;
}

function merged(nodes) {
  const out = [];
  for (const node of nodes) {
    if (typeof node === "string" && typeof out.at(-1) === "string") out[out.length - 1] += node;
    else out.push(node);
  }
  return out;
}
