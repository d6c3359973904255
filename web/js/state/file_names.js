/** Which workspace files a text names: the exact path, or a base name that only one file has. */

/** @typedef {{path: string, bytes: number, attachable: boolean, reason?: string}} WorkspaceFile */

export const MAX_ATTACHMENTS = 4;
const MAX_LOOSE_NAMES = 200;
/** A longer text cannot be sent anyway. */
const MAX_TEXT_CHARS = 32_768;
const ASCII_NAME = /[\w.\-/+@~]+/g;
const LOOSE = /[^\w.\-/+@~]/;

/**
 * @param {string} text
 * @param {WorkspaceFile[]} files
 * @returns {WorkspaceFile[]} in the order in which the text names them
 */
export function namedFiles(text, files) {
  if (!text || text.length > MAX_TEXT_CHARS || !files?.length) return NONE;
  if (text !== last.text || files !== last.files) last = { text, files, named: findNames(text, files) };
  return last.named;
}

const NONE = [];
/** Several parts of the page ask for the same text in one keystroke. */
let last = { text: "", files: null, named: NONE };

function findNames(text, files) {
  const names = namesOf(files);
  const found = new Map();
  for (const match of text.matchAll(ASCII_NAME)) note(found, names.get(trimmed(match[0], names)), match.index);
  for (const [name, file] of looseNames(names)) note(found, text.includes(name) ? file : null, text.indexOf(name));
  return [...found].sort((a, b) => a[1] - b[1]).map(([file]) => file);
}

/** The files that a send would attach: named, readable, not taken away, at most four. */
export function attachmentsOf(draft, files) {
  return namedFiles(draft.text, files)
    .filter((file) => file.attachable && !draft.dismissed.includes(file.path))
    .slice(0, MAX_ATTACHMENTS);
}

function namesOf(files) {
  const names = new Map();
  const baseNames = new Map();
  for (const file of files) {
    names.set(file.path, file);
    const base = file.path.slice(file.path.lastIndexOf("/") + 1);
    baseNames.set(base, baseNames.has(base) ? null : file);
  }
  for (const [base, file] of baseNames) if (file && !names.has(base)) names.set(base, file);
  return names;
}

/** "notes.md." at a sentence's end names notes.md; "@notes.md" too. */
function trimmed(word, names) {
  if (names.has(word)) return word;
  const bare = word.replace(/^@/, "");
  return names.has(bare) ? bare : bare.replace(/[.\-/]+$/, "");
}

/** Names with blanks or other scripts cannot be cut out of running text: they are looked for one by one. */
function looseNames(names) {
  return [...names].filter(([name]) => LOOSE.test(name)).slice(0, MAX_LOOSE_NAMES);
}

function note(found, file, index) {
  if (file && !found.has(file)) found.set(file, index);
}

/**
 * The `@prefix` or `/command` under the caret, if any.
 * @returns {{kind: "file"|"command", prefix: string, start: number, end: number} | null}
 */
export function completionAt(text, caret) {
  const before = text.slice(Math.max(0, caret - 512), caret);
  const offset = caret - before.length;
  const command = /^\/(\S*)$/.exec(before);
  if (command && offset === 0) return { kind: "command", prefix: command[1], start: 0, end: caret };
  const file = /(^|[\s(（，。、：])@([^\s@]*)$/u.exec(before);
  if (!file) return null;
  return { kind: "file", prefix: file[2], start: offset + file.index + file[1].length, end: caret };
}
