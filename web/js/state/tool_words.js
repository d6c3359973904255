/** What a tool call is about, in a few words, and what a whole Run did. */
import { oneLine } from "../dom/plain_text.js";

const TARGET_KEYS = ["path", "pattern", "command", "task", "title", "skill", "text", "message"];
const MAX_TARGET_CHARS = 80;

const EFFECTS = {
  "file/read_text": "read",
  "document/extract_text": "read",
  "file/stat": "looked",
  "file/glob": "searched",
  "file/grep": "searched",
  "file/edit": "changed",
  "file/write": "changed",
  "exec/run": "ran",
  "skill/run": "skilled",
  "agent/delegate": "delegated",
};

/** Effects that are counted by file: three looks into one file are one file read. */
const OF_FILES = new Set(["changed", "read", "looked"]);

/** The path, pattern or command of a call, from its bounded preview. */
export function targetOf(preview) {
  const value = fromJson(preview) ?? fromDiff(preview) ?? preview;
  const line = oneLine(String(value ?? "").split("\n", 1)[0]);
  return line.length > MAX_TARGET_CHARS ? `${[...line].slice(0, MAX_TARGET_CHARS).join("")}…` : line;
}

/** @returns {{effect: string, n: number}[]} finished calls that did something, most telling first; one that was only answered again did nothing */
export function effectsOf(calls) {
  const done = new Map();
  calls.forEach((call, index) => {
    const effect = EFFECTS[call.tool_id];
    if (call.outcome !== "ok" || call.code === "repeated" || !effect) return;
    done.set(effect, (done.get(effect) ?? new Set()).add(OF_FILES.has(effect) ? targetOf(call.preview) || index : index));
  });
  const order = ["changed", "ran", "skilled", "delegated", "read", "searched", "looked"];
  return order.filter((effect) => done.has(effect)).map((effect) => ({ effect, n: done.get(effect).size }));
}

/** What became of a finished call: for a document why there is no text in it, else its outcome. The first key that has words counts. */
export function outcomeKeys({ tool_id: toolId, outcome, code }) {
  const told = [`outcome.${outcome}`, "outcome.failed"];
  return toolId === "document/extract_text" && outcome !== "ok" && code ? [`reading.${code}`, ...told] : told;
}

/** What the operator is asked: change a file, run a command, use a Skill, delegate, or a tool without its own words. */
export function askOf(toolId) {
  return { "file/edit": "change", "file/write": "write", "exec/run": "run", "skill/run": "skill", "agent/delegate": "delegate" }[toolId] ?? "tool";
}

function fromJson(preview) {
  if (!preview?.trimStart().startsWith("{")) return null;
  try {
    const value = JSON.parse(preview);
    const key = TARGET_KEYS.find((name) => typeof value[name] === "string");
    return key ? value[key] : null;
  } catch {
    return /"(?:path|pattern|command|task|message)"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(preview)?.[1] ?? null;
  }
}

function fromDiff(preview) {
  return /^\+\+\+ ([^\n]+)/m.exec(preview ?? "")?.[1] ?? null;
}
