/** Foreign text on one line: a title, a path, a name. */

/** C0 and C1 controls, and what changes the direction or joins of everything after it. */
const DISTURBING = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const INVISIBLE_ONLY = /^[\s\u200b-\u200d\u2060\ufeff\u00ad]*$/;

/** One visible line; empty when nothing visible is left. */
export function oneLine(text) {
  const line = String(text ?? "").replace(DISTURBING, " ").trim();
  return INVISIBLE_ONLY.test(line) ? "" : line;
}

export function byteLength(text) {
  return new TextEncoder().encode(text).length;
}

/** Lone surrogates become the replacement sign, as the server's decoder would have it. */
export function wellFormed(text) {
  return text.toWellFormed ? text.toWellFormed() : new TextDecoder().decode(new TextEncoder().encode(text));
}

const GRAPHEMES = globalThis.Intl?.Segmenter ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : null;

/** The first visible character, whole, for an Agent's sign. */
export function initialOf(text) {
  const line = oneLine(text);
  if (!line) return "";
  const first = GRAPHEMES ? GRAPHEMES.segment(line)[Symbol.iterator]().next().value.segment : [...line][0];
  return first.toLocaleUpperCase();
}
