/**
 * The line that is being read, found again after the same words were drawn in another way: streamed text becomes
 * Markdown, so paragraphs move and signs disappear, but the letters stay in their order.
 */

const LETTER = /[\p{L}\p{N}]/u;
const LETTERS = /[\p{L}\p{N}]/gu;
/** So many letters tell one line from the next. */
const LINE_LETTERS = 60;
/** How many lines below the first visible one are tried, should it be drawn without words. */
const LINES = 40;
/** What the page adds to the words of an answer. */
const ADDED = "button, summary, .visually-hidden, .tool-line, .thinking, .foot";

export function lettersOf(text) {
  return text.match(LETTERS)?.join("") ?? "";
}

/**
 * Where `line` begins in `letters`; of several places the one with nearest to `after` letters from there to the end,
 * since an answer may lose its beginning but never its end.
 * @returns {number} -1 when it is not there
 */
export function findLine(letters, line, after) {
  let best = -1;
  for (let at = letters.indexOf(line); at >= 0; at = letters.indexOf(line, at + 1)) {
    if (best < 0 || Math.abs(letters.length - at - after) < Math.abs(letters.length - best - after)) best = at;
  }
  return best;
}

/**
 * @param {Element} scroller
 * @param {Element} body what is drawn anew
 * @returns {() => number|null} called after the change: by how many pixels the line moved down; null when it is gone
 */
export function markReading(scroller, body) {
  const top = scroller.getBoundingClientRect().top;
  const { letters, nodes } = wordsOf(body);
  const first = nodes.findIndex(({ node }) => rectOf(node, 0, node.length).bottom > top);
  const lines = first < 0 ? [] : nodes.slice(first, first + LINES).map((each) => {
    const line = letters.slice(each.start, each.end).slice(0, LINE_LETTERS);
    return { line, after: letters.length - each.start, top: topOf(each, 0) };
  });
  return () => {
    const now = wordsOf(body);
    for (const { line, after, top: before } of lines) {
      const at = findLine(now.letters, line, after);
      if (at >= 0) return topAt(now.nodes, at) - before;
    }
    return null;
  };
}

/** Every text node with words, and which letters of the whole are its own. */
function wordsOf(body) {
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
  const nodes = [];
  const parts = [];
  let length = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const own = node.parentElement.closest(ADDED) ? "" : lettersOf(node.data);
    if (!own) continue;
    nodes.push({ node, start: length, end: length + own.length });
    parts.push(own);
    length += own.length;
  }
  return { letters: parts.join(""), nodes };
}

function topAt(nodes, at) {
  const found = nodes.find(({ end }) => end > at);
  return topOf(found, at - found.start);
}

/** The upper edge of the letter that stands `skip` places (in UTF-16 units of letters) behind the node's first one. */
function topOf({ node }, skip) {
  let offset = 0;
  let passed = 0;
  for (const sign of node.data) {
    if (LETTER.test(sign)) {
      if (passed >= skip) break;
      passed += sign.length;
    }
    offset += sign.length;
  }
  return rectOf(node, offset, offset + 1).top;
}

function rectOf(node, start, end) {
  const range = document.createRange();
  range.setStart(node, Math.min(start, node.length));
  range.setEnd(node, Math.min(end, node.length));
  return range.getBoundingClientRect();
}
