/** Draws Markdown as elements. Raw HTML stays text, nothing is loaded, only plain web links can be clicked. */
import { h } from "./h.js";
import { parseBlocks } from "./markdown_blocks.js";
import { parseInline } from "./markdown_inline.js";

/** Headings of an answer stand below the page's own. */
const HEADING_OFFSET = 2;
const MAX_LANGUAGE_CHARS = 24;

/**
 * @param {string} text
 * @param {{copyLabel: string, tableLabel: string, codeLabel: string, onCopy: (code: string, button: HTMLElement, body: HTMLElement) => void}} words
 * @returns {DocumentFragment}
 */
export function renderMarkdown(text, words) {
  const fragment = document.createDocumentFragment();
  fragment.append(...parseBlocks(text).map((block) => drawBlock(block, words)));
  return fragment;
}

function drawBlock(block, words) {
  switch (block.type) {
    case "heading":
      return h(`h${Math.min(6, block.level + HEADING_OFFSET)}`, null, drawInline(block.text));
    case "rule":
      return h("hr");
    case "code":
      return drawCode(block, words);
    case "quote":
      return h("blockquote", null, block.blocks.map((inner) => drawBlock(inner, words)));
    case "list":
      return drawList(block, words);
    case "table":
      return drawTable(block, words);
    default:
      return h("p", { dir: "auto" }, drawInline(block.text));
  }
}

function drawList({ ordered, start, tight, items }, words) {
  const rows = items.map((blocks) => h("li", { dir: "auto" }, blocks.map((block) => drawItemBlock(block, tight, words))));
  if (!ordered) return h("ul", null, rows);
  return h("ol", { start: start === 1 ? null : start }, rows);
}

/** In a tight list the text stands directly in its item. */
function drawItemBlock(block, tight, words) {
  return tight && block.type === "paragraph" ? drawInline(block.text) : drawBlock(block, words);
}

function drawCode({ language, text }, words) {
  const label = language.replace(/[^\w+#.-]/g, "").slice(0, MAX_LANGUAGE_CHARS);
  const body = h("code", { dir: "ltr" }, text);
  const copy = h("button", { type: "button", class: "code-copy" }, words.copyLabel);
  copy.addEventListener("click", () => words.onCopy(text, copy, body));
  const bar = h("div", { class: "code-bar" }, label ? h("span", { class: "code-language" }, label) : null, copy);
  return h("div", { class: "code-block" }, bar, h("pre", { tabindex: "0", role: "region", aria: { label: label || words.codeLabel } }, body));
}

function drawTable({ align, head, rows }, words) {
  const cell = (tag, text, column) => h(tag, { class: align[column] ? `align-${align[column]}` : null, scope: tag === "th" ? "col" : null, dir: "auto" }, drawInline(text));
  const line = (tag, cells) => h("tr", null, cells.map((text, column) => cell(tag, text, column)));
  const table = h("table", null, h("thead", null, line("th", head)), h("tbody", null, rows.map((cells) => line("td", cells))));
  return h("div", { class: "table-scroll", tabindex: "0", role: "region", aria: { label: words.tableLabel } }, table);
}

function drawInline(text) {
  return parseInline(text).map(drawNode);
}

function drawNode(node) {
  if (typeof node === "string") return node;
  switch (node.type) {
    case "code":
      return h("code", null, node.text);
    case "break":
      return h("br");
    case "link":
      return h("a", { href: node.href, target: "_blank", rel: "noopener noreferrer" }, node.children.map(drawNode));
    default:
      return h(node.type, null, node.children.map(drawNode));
  }
}
