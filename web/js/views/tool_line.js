/** One tool call in the Conversation: what was asked for and how it went. */
import { h, setText, toggle } from "../dom/h.js";
import { icon } from "../dom/icons.js";
import { outcomeKeys, targetOf } from "../state/tool_words.js";

const GOOD = new Set(["ok"]);
const CHANGES = new Set(["file/edit", "file/write"]);

export function toolLine(app, first) {
  const mark = h("span", { class: "tool-mark" });
  const target = h("bdi", { class: "tool-target" });
  const outcome = h("span", { class: "tool-outcome" });
  const element = h("p", { class: "tool-line" }, mark, h("code", { class: "tool-id" }, first.tool_id), target, outcome);
  let drawnMark = null;

  function update(call, waits = false) {
    const state = call.phase === "finished" ? (GOOD.has(call.outcome) ? "done" : "bad") : "open";
    if (drawnMark !== state) {
      drawnMark = state;
      mark.replaceChildren(state === "done" ? icon("check") : state === "bad" ? icon("close") : h("span", { class: "dot-open" }));
    }
    toggle(element, "waits", waits);
    toggle(element, "bad", state === "bad");
    setText(target, targetOf(call.preview));
    setText(outcome, outcomeWords(app, call, waits));
  }

  update(first);
  return { element, update };
}

function outcomeWords({ words }, call, waits) {
  if (waits) return words.t("tool.waits");
  if (call.phase !== "finished") return words.t(call.phase === "started" ? "tool.runs" : "tool.proposed");
  if (!GOOD.has(call.outcome)) return words.t(outcomeKeys(call).find(words.has) ?? "outcome.failed");
  return CHANGES.has(call.tool_id) ? "" : receiptWords(words, call.receipt);
}

/** The receipt's plain facts that a reader cares about. */
function receiptWords(words, receipt) {
  if (!receipt || typeof receipt !== "object") return "";
  if (Number.isInteger(receipt.exit_code)) return words.t("receipt.exit", { code: receipt.exit_code });
  if (Number.isInteger(receipt.pages)) return words.t("receipt.pages", { n: receipt.pages });
  if (Number.isInteger(receipt.total_chars)) return words.t(receipt.complete ? "receipt.characters" : "receipt.characters_more", { n: receipt.total_chars });
  if (Number.isInteger(receipt.matches)) return words.t("receipt.matches", { n: receipt.matches });
  const lines = receipt.total_lines ?? receipt.lines;
  if (Number.isInteger(lines)) return words.t("receipt.lines", { n: lines });
  const bytes = receipt.total_bytes ?? receipt.bytes;
  return Number.isInteger(bytes) ? words.bytes(bytes) : "";
}
