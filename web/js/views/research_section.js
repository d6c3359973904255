/** The section "Documents" of an Agent's panel: its research and document environment. */
import { agentPath } from "../api.js";
import { confirmDialog } from "../dom/dialog.js";
import { h, setText } from "../dom/h.js";
import { researchLook } from "../state/research.js";

/** @returns {import("./agent_panel.js").AgentSection} */
export function researchSection(app, agent, changed) {
  const { api, words } = app;
  const { t } = words;
  const path = agentPath(agent.agent_id, "dependencies", "research-documents");
  const line = h("p", { class: "research-line", role: "status" });
  const elapsed = h("span", { class: "research-elapsed" });
  const bar = h("progress", { class: "research-bar", aria: { label: t("research.progress") } });
  const note = h("p", { class: "research-note" });
  const fault = h("p", { class: "research-fault", role: "alert" });
  const count = h("summary", null);
  const list = h("dl", { class: "facts" });
  const packages = h("details", { class: "research-packages" }, count, list);
  const buttons = {
    install: button("research.install", "button primary", install),
    again: button("action.try_again", "button primary", install),
    stop: button("research.stop", "button", remove),
    remove: button("research.remove", "button", askAndRemove),
  };
  const actions = h("div", { class: "research-actions" }, Object.values(buttons));
  const place = h("div", { class: "research-state", hidden: true }, h("div", { class: "research-head" }, line, elapsed), bar, note, fault, packages, actions);
  const element = h("div", { class: "research" }, h("p", { class: "research-about" }, t("research.about")), place);
  let asked = 0;
  let shownLine = "";
  let drawn = "";
  let refused = ""; // what the last button was answered with, while nothing has changed since

  function button(key, className, onClick) {
    return h("button", { type: "button", class: className, onClick }, t(key));
  }

  function install() {
    return change(() => api.post(path));
  }

  function remove() {
    return change(() => api.remove(path));
  }

  async function askAndRemove() {
    const sure = await confirmDialog({
      title: t("research.remove_title"), body: [t("research.remove_body")], confirm: t("research.remove"), cancel: t("action.keep"), danger: true,
    });
    if (sure) await remove();
  }

  /** What a button asks for; the panel looks again at once, so that progress is seen. */
  async function change(ask) {
    const all = Object.values(buttons);
    const held = all.includes(document.activeElement);
    for (const each of all) each.disabled = true;
    refused = await ask().then(() => "", refusal);
    for (const each of all) each.disabled = false;
    await changed();
    if (held) (all.find((each) => !each.hidden) ?? element.closest("dialog").querySelector(".dialog-actions button")).focus();
  }

  async function refresh() {
    const mine = ++asked;
    const { look, fault: unread } = await api.get(path).then((status) => ({ look: researchLook(status) }), (error) => ({ fault: refusal(error) }));
    if (mine !== asked) return true;
    place.hidden = false;
    if (look) draw(look);
    else show(fault, unread);
    return look?.busy ?? false;
  }

  function draw(look) {
    if (look.line !== shownLine && shownLine) refused = "";
    shownLine = look.line;
    setText(line, t(look.line, { ...look.params, time: look.params.time && dayOf(look.params.time) }));
    show(elapsed, look.elapsedMs === null ? "" : words.stopwatch(look.elapsedMs));
    bar.hidden = !look.bar;
    if (look.bar) drawBar(look.bar);
    show(note, look.note ? t(look.note) : "");
    show(fault, look.fault ? t(look.fault) : refused);
    packages.hidden = !look.packages.length;
    setText(count, t("research.packages", { n: look.packages.length }));
    drawPackages(look.packages);
    for (const [name, each] of Object.entries(buttons)) each.hidden = !look.actions.includes(name);
    actions.hidden = !look.actions.length;
  }

  function drawBar({ value, max }) {
    bar.max = max;
    if (value === null) bar.removeAttribute("value");
    else bar.value = value;
  }

  /** Only when they are others: a reader may be copying from the list. */
  function drawPackages(found) {
    const key = JSON.stringify(found);
    if (key === drawn) return;
    drawn = key;
    list.replaceChildren(...found.flatMap(({ name, version }) => [h("dt", null, name), h("dd", null, version)]));
  }

  function dayOf(time) {
    return new Intl.DateTimeFormat(words.locale, { dateStyle: "medium" }).format(new Date(time));
  }

  /** A refusal in words; anything else is a fault of the page. */
  function refusal(error) {
    if (error.name !== "ApiError") throw error;
    return words.tOr(`research.refused_${error.code}`, words.has(`error.${error.code}`) ? `error.${error.code}` : "error.other");
  }

  return { title: t("research.title"), element, refresh };
}

function show(element, text) {
  setText(element, text);
  element.hidden = !text;
}
