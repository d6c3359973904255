/** One delegation in its Turn: whom was asked, how it stands, what was said, and the way to the other Agent. */
import { h, setText, toggle } from "../dom/h.js";
import { icon } from "../dom/icons.js";
import { oneLine } from "../dom/plain_text.js";
import { isGoing } from "../state/subagents.js";

/** @param {object} app */
export function subagentCard(app) {
  const { t } = app.words;
  const name = h("bdi", { class: "subagent-name" });
  const standing = h("span", { class: "subagent-state" });
  const letters = h("div", { class: "subagent-letters" });
  const mailbox = h("details", { class: "subagent-mailbox" }, h("summary", null, t("subagent.mailbox")), letters);
  const conversation = h("button", { type: "button", class: "button small", onClick: () => app.delegating.openConversation(shown.child) }, t("subagent.open_conversation"));
  const run = h("button", { type: "button", class: "button small", onClick: () => app.delegating.openRun(shown.child) }, t("subagent.open_run"));
  const gone = h("span", { class: "subagent-gone" }, t("subagent.deleted"));
  const heading = h("h3", { class: "subagent-title" }, h("span", { class: "visually-hidden" }, t("subagent.asked")), icon("branch"), name, standing);
  const element = h("section", { class: "card subagent" }, heading, mailbox, h("div", { class: "subagent-actions" }, conversation, run, gone));
  let shown = null;

  /** @param {import("../state/subagents.js").Subagent} subagent @param {"there"|"waits"|"deleted"} other */
  function update(subagent, other) {
    const waits = other === "waits";
    const deleted = other === "deleted";
    if (shown?.mailbox.length !== subagent.mailbox.length) letters.replaceChildren(...subagent.mailbox.map((letter) => letterView(app, letter)));
    shown = subagent;
    setText(name, oneLine(subagent.child.agent_name));
    setText(standing, standingWords(app, subagent, waits));
    toggle(element, "waits", waits);
    toggle(element, "bad", !isGoing(subagent) && subagent.state !== "completed");
    conversation.hidden = deleted || (!subagent.child.run_id && !isGoing(subagent));
    run.hidden = deleted || !subagent.child.run_id;
    gone.hidden = !deleted;
  }

  return { element, update };
}

function standingWords({ words: { t, tOr, has } }, { state, code }, waits) {
  if (waits) return t("subagent.waits");
  if (state !== "failed" || !code) return t(`subagent.${state}`);
  return has(`subagent.code_${code}`) ? t(`subagent.code_${code}`) : `${t("subagent.failed")} · ${tOr(`error.${code}`, "error.other")}`;
}

function letterView({ words: { t } }, { direction, text }) {
  return h("div", { class: "subagent-letter" }, h("h4", null, t(`subagent.${direction}`)), h("p", { dir: "auto" }, text));
}
