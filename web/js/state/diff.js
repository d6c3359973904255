/** A unified diff as lines with their numbers. Its paths are written without the a/ and b/ of git. */

/** What a permission carries in full is a diff for a file, and words for a command. */
export function isDiff(text) {
  return /^--- .*\n\+\+\+ /.test(text);
}

/**
 * @typedef {{kind: "same"|"add"|"remove"|"gap"|"note", number: number|null, text: string}} DiffLine
 * @returns {{path: string|null, lines: DiffLine[], added: number, removed: number}}
 */
export function parseDiff(text) {
  const result = { path: null, lines: [], added: 0, removed: 0 };
  const place = { old: 1, new: 1, inHunk: false };
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) readLine(line, place, result);
  return result;
}

function readLine(line, place, result) {
  const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
  if (hunk) {
    if (result.lines.length) result.lines.push({ kind: "gap", number: null, text: "" });
    place.old = Number(hunk[1]);
    place.new = Number(hunk[2]);
    place.inHunk = true;
    return;
  }
  const header = !place.inHunk && /^(---|\+\+\+) (.*)$/.exec(line);
  if (header) {
    if (header[1] === "+++") result.path = header[2];
    return;
  }
  bodyLine(line, place, result);
}

function bodyLine(line, place, result) {
  const text = line.slice(1);
  if (line.startsWith("+")) {
    result.added += 1;
    result.lines.push({ kind: "add", number: place.new++, text });
  } else if (line.startsWith("-")) {
    result.removed += 1;
    result.lines.push({ kind: "remove", number: place.old++, text });
  } else if (line.startsWith("\\")) {
    result.lines.push({ kind: "note", number: null, text: text.trim() });
  } else {
    result.lines.push({ kind: "same", number: place.new++, text: line.startsWith(" ") ? text : line });
    place.old += 1;
  }
}
