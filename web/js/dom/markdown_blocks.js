/**
 * Markdown text to a tree of blocks: a subset of CommonMark (https://spec.commonmark.org/0.31.2/) with pipe tables.
 * Every line is looked at once per level of nesting, and nesting is bounded, so the time grows with the length only.
 */

/**
 * @typedef {{type: "paragraph", text: string} | {type: "heading", level: number, text: string} | {type: "rule"}
 *   | {type: "code", language: string, text: string} | {type: "quote", blocks: Block[]}
 *   | {type: "list", ordered: boolean, start: number, tight: boolean, items: Block[][]}
 *   | {type: "table", align: (string|null)[], head: string[], rows: string[][]}} Block
 */

const MAX_NESTING = 12;
const MAX_COLUMNS = 64;

const BLANK = /^[ \t]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)(.*)$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const FENCE = /^( {0,3})(`{3,}|~{3,})(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-+*]|\d{1,9}[.)])([ \t]+|$)(.*)$/;
const SETEXT = /^ {0,3}(=+|-+)[ \t]*$/;
const INDENTED = /^(?: {4}| {0,3}\t)/;
const DELIMITER_ROW = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/** @returns {Block[]} */
export function parseBlocks(text) {
  return blocksOf(text.replace(/\u0000/g, "\ufffd").split(/\r\n|\n|\r/), 0);
}

function blocksOf(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (BLANK.test(lines[at])) {
      at += 1;
      continue;
    }
    const read = readBlock(lines, at, depth);
    blocks.push(read.block);
    at = read.next;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = fenceOf(line);
  if (fence) return readFence(lines, at, fence);
  if (INDENTED.test(line)) return readIndented(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return { block: { type: "heading", level: heading[1].length, text: bareHeading(heading[2]) }, next: at + 1 };
  if (RULE.test(line)) return { block: { type: "rule" }, next: at + 1 };
  if (depth < MAX_NESTING) {
    if (QUOTE.test(line)) return readQuote(lines, at, depth);
    if (ITEM.test(line)) return readList(lines, at, depth);
  }
  if (startsTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

function bareHeading(text) {
  return text.replace(/(?:^|[ \t]+)#+[ \t]*$/, "").trim();
}

function fenceOf(line) {
  const match = FENCE.exec(line);
  if (!match || (match[2][0] === "`" && match[3].includes("`"))) return null;
  return { indent: match[1].length, mark: match[2], language: match[3].trim().split(/\s/, 1)[0] };
}

/** An unclosed fence runs to the end. */
function readFence(lines, at, { indent, mark, language }) {
  const body = [];
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    if (closesFence(lines[next], mark)) return codeBlock(language, body, next + 1);
    body.push(unindent(lines[next], indent));
  }
  if (body.at(-1) === "") body.pop();
  return codeBlock(language, body, next);
}

function codeBlock(language, body, next) {
  return { block: { type: "code", language, text: body.join("\n") }, next };
}

function closesFence(line, mark) {
  const match = FENCE.exec(line);
  return match !== null && match[2][0] === mark[0] && match[2].length >= mark.length && BLANK.test(match[3]);
}

const TAB = 4;

/** Takes away at most `columns` of indent; a tab that reaches further leaves blanks. */
function unindent(line, columns) {
  let column = 0;
  let cut = 0;
  for (; column < columns; cut += 1) {
    if (line[cut] === " ") column += 1;
    else if (line[cut] === "\t") column += TAB - (column % TAB);
    else break;
  }
  return " ".repeat(Math.max(0, column - columns)) + line.slice(cut);
}

function readIndented(lines, at) {
  let next = at;
  let end = at;
  for (; next < lines.length && (INDENTED.test(lines[next]) || BLANK.test(lines[next])); next += 1) {
    if (!BLANK.test(lines[next])) end = next + 1;
  }
  const text = lines.slice(at, end).map((line) => unindent(line, 4)).join("\n");
  return { block: { type: "code", language: "", text }, next: end };
}

function readQuote(lines, at, depth) {
  const inner = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    if (QUOTE.test(lines[next])) inner.push(lines[next].replace(QUOTE, ""));
    else if (continuesLazily(lines[next], inner.at(-1))) inner.push(lines[next]);
    else break;
  }
  return { block: { type: "quote", blocks: blocksOf(inner, depth + 1) }, next };
}

/** A line without its marker still belongs to an open paragraph. */
function continuesLazily(line, before) {
  return !BLANK.test(line) && !BLANK.test(before ?? "") && !interrupts(line) && !fenceOf(before) && !HEADING.test(before) && !RULE.test(before);
}

/** Whether a line ends the paragraph above it. */
function interrupts(line) {
  if (fenceOf(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)) return true;
  const item = ITEM.exec(line);
  return item !== null && item[4] !== "" && (!/\d/.test(item[2]) || item[2].slice(0, -1) === "1");
}

function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const kind = first[2].at(-1);
  const items = [];
  let loose = false;
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]);
    if (!item || item[2].at(-1) !== kind || /\d/.test(item[2]) !== ordered || RULE.test(lines[next])) break;
    const read = readItem(lines, next, item);
    items.push(blocksOf(read.lines, depth + 1));
    loose ||= read.blankInside;
    next = read.next;
    const after = skipBlank(lines, next);
    if (after > next && after < lines.length && ITEM.exec(lines[after])?.[2].at(-1) === kind) {
      loose = true;
      next = after;
    } else if (after > next) break;
  }
  return { block: { type: "list", ordered, start: ordered ? Number.parseInt(first[2], 10) : 1, tight: !loose, items }, next };
}

/** The item's own lines without their indent; lines that are indented as far, or continue its paragraph, belong to it. */
function readItem(lines, at, [, indent, marker, gap, rest]) {
  const padding = gap.length > 4 || rest === "" ? 1 : gap.length;
  const column = indent.length + marker.length + padding;
  const own = [];
  let fence = null;
  const take = (line) => {
    fence = fence ? (closesFence(line, fence) ? null : fence) : (fenceOf(line)?.mark ?? null);
    own.push(line);
  };
  take(gap.length > 4 ? " ".repeat(gap.length - 1) + rest : rest);
  let blankInside = false;
  let next = at + 1;
  while (next < lines.length) {
    if (BLANK.test(lines[next])) {
      const after = skipBlank(lines, next);
      if (after >= lines.length || indentOf(lines[after]) < column || (own.length === 1 && rest === "")) break;
      for (; next < after; next += 1) own.push("");
      blankInside ||= fence === null;
    } else if (indentOf(lines[next]) >= column) take(unindent(lines[next++], column));
    else if (!fence && continuesLazily(lines[next], own.at(-1)) && !ITEM.test(lines[next])) take(lines[next++].trimStart());
    else break;
  }
  return { lines: own, blankInside, next };
}

/** The column at which the text begins. */
function indentOf(line) {
  let column = 0;
  for (const sign of line) {
    if (sign === " ") column += 1;
    else if (sign === "\t") column += TAB - (column % TAB);
    else break;
  }
  return column;
}

function skipBlank(lines, at) {
  let next = at;
  while (next < lines.length && BLANK.test(lines[next])) next += 1;
  return next;
}

function startsTable(lines, at) {
  if (!lines[at].includes("|") || !DELIMITER_ROW.test(lines[at + 1] ?? "")) return false;
  const columns = cellsOf(lines[at]).length;
  return columns === cellsOf(lines[at + 1]).length && columns <= MAX_COLUMNS;
}

function readTable(lines, at) {
  const head = cellsOf(lines[at]);
  const align = cellsOf(lines[at + 1]).map(alignOf);
  const rows = [];
  let next = at + 2;
  for (; next < lines.length && !BLANK.test(lines[next]) && !interrupts(lines[next]); next += 1) {
    const cells = cellsOf(lines[next]).slice(0, head.length);
    while (cells.length < head.length) cells.push("");
    rows.push(cells);
  }
  return { block: { type: "table", align, head, rows }, next };
}

function cellsOf(line) {
  const cells = line.trim().replace(/^\|/, "").replace(/\\\|/g, "\u0001").replace(/\|$/, "").split("|");
  return cells.map((cell) => cell.replaceAll("\u0001", "|").trim());
}

function alignOf(cell) {
  if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "end";
  return cell.startsWith(":") ? "start" : null;
}

function readParagraph(lines, at, depth) {
  const own = [lines[at]];
  let next = at + 1;
  for (; next < lines.length && !BLANK.test(lines[next]); next += 1) {
    const underline = SETEXT.exec(lines[next]);
    if (underline) return { block: { type: "heading", level: underline[1][0] === "=" ? 1 : 2, text: joined(own) }, next: next + 1 };
    if (depth < MAX_NESTING ? interrupts(lines[next]) : fenceOf(lines[next])) break;
    if (startsTable(lines, next)) break;
    own.push(lines[next]);
  }
  return { block: { type: "paragraph", text: joined(own) }, next };
}

/** Trailing blanks stay: two of them before a line end are a hard break. */
function joined(lines) {
  return lines.map((line) => line.trimStart()).join("\n").trimEnd();
}
