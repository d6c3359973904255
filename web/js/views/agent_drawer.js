/** The shown Agent, and behind it all Agents: switch, create, rename, rebuild, delete. */
import { h, setAria, setText, toggle } from "../dom/h.js";
import { dots, icon } from "../dom/icons.js";
import { keyedList } from "../dom/keyed_list.js";
import { attachMenu } from "../dom/menu.js";
import { initialOf, oneLine } from "../dom/plain_text.js";
import { agentById, isSettling } from "../state/agents.js";
import { openAgentPanel } from "./agent_panel.js";
import { AGENT_SECTIONS } from "./agent_sections.js";

export function agentDrawer(app) {
  const { store, organising } = app;
  const { t } = app.words;
  const sign = h("span", { class: "agent-sign", aria: { hidden: "true" } });
  const name = h("bdi", { class: "agent-name" });
  const elsewhere = h("span", { class: "dot", hidden: true });
  const button = h(
    "button",
    { type: "button", class: "agent-button", aria: { expanded: "false", controls: "agent-list" }, onClick: () => toggleList(app) },
    sign,
    name,
    elsewhere,
    icon("chevron", "turns"),
  );
  const rows = h("ul", { class: "agent-rows" });
  const create = h("button", { type: "button", class: "agent-create", onClick: organising.createAgent }, icon("plus"), t("agent.new"));
  const panel = h("div", { class: "agent-panel", id: "agent-list" }, rows, create);
  const list = keyedList(rows, { key: (row) => row.agent.agent_id, create: (row) => agentRow(app, row.agent.agent_id) });

  store.watch(
    ({ agents, view }) => [agents, view.agentId, view.agentsOpen],
    ([agents, agentId, open]) => {
      const agent = agentById(store.get(), agentId);
      setText(name, agent ? oneLine(agent.name) : t("agent.loading"));
      setText(sign, agent ? initialOf(agent.name) : "");
      const others = agents.items.filter((item) => item.agent_id !== agentId);
      const waits = others.some((item) => item.waiting);
      elsewhere.hidden = !waits && !others.some((item) => item.running);
      toggle(elsewhere, "waits", waits);
      setAria(button, "label", agent ? t(waits ? "agent.button_waits" : "agent.button", { name: oneLine(agent.name) }) : null);
      setAria(button, "expanded", open);
      panel.hidden = !open;
      list.show(agents.items.map((item) => ({ agent: item, current: item.agent_id === agentId })));
    },
  );
  return h("div", { class: "agents" }, button, panel);
}

/** What the others do is read anew when one looks at them. */
function toggleList({ store, lists }) {
  store.dispatch({ type: "view/agents_toggled" });
  if (store.get().view.agentsOpen) lists.loadAgents();
}

function agentRow(app, id) {
  const { t } = app.words;
  let agent = null;
  const name = h("bdi", { class: "row-title" });
  const phase = h("small", { class: "agent-phase" });
  const mark = h("span", { class: "dot", hidden: true });
  const spoken = h("span", { class: "visually-hidden" });
  const open = h("button", { type: "button", class: "row-open", onClick: () => switchTo(app, id) }, name, phase, mark, spoken);
  const more = h("button", { type: "button", class: "icon-button row-more" }, dots());
  attachMenu(more, () => agentMenu(app, agent), { align: "start", label: t("agent.actions") });
  const element = h("li", { class: "row" }, open, more);

  function update(row) {
    agent = row.agent;
    const label = oneLine(agent.name);
    setText(name, label);
    open.title = label;
    setText(phase, isSettling(agent) ? app.words.tOr(`phase.${agent.phase}`, "phase.other") : "");
    setAria(more, "label", t("agent.actions_of", { name: label }));
    setAria(open, "current", row.current ? "true" : null);
    toggle(element, "current", row.current);
    mark.hidden = !agent.running;
    toggle(mark, "waits", agent.waiting);
    setText(spoken, agent.waiting ? t("mark.waits") : agent.running ? t("mark.runs") : "");
  }
  return { element, update };
}

function switchTo({ store, navigation }, id) {
  store.dispatch({ type: "view/agents_toggled", open: false });
  navigation.go(id, null);
}

function agentMenu(app, agent) {
  const { words: { t }, organising } = app;
  const items = [
    { label: t("action.rename_more"), run: () => organising.renameAgent(agent) },
    { label: t("agent.panel_more"), run: () => openAgentPanel(app, agent, AGENT_SECTIONS) },
  ];
  if (agent.system) return items;
  return [
    ...items,
    { separator: true },
    { heading: t("agent.advanced") },
    { label: t("agent.rebuild_more"), note: t("agent.rebuild_note"), run: () => organising.rebuildAgent(agent) },
    { separator: true },
    { label: t("action.delete_more"), danger: true, run: () => organising.deleteAgent(agent) },
  ];
}
