/**
 * One event looked at from five sides: derived facts, the words it carries, its canonical payload, its whole envelope,
 * and the context of its Run, which is read only when it is asked for.
 */
import { agentPath } from "../api.js";
import { h, setAria, toggle } from "../dom/h.js";
import { isActive } from "../state/turns.js";

const TABS = ["facts", "message", "payload", "envelope", "context"];

export function inspector(app) {
  const { store } = app;
  const { t } = app.words;
  const panel = h("div", { class: "inspector-panel", id: "inspector-panel", role: "tabpanel", tabindex: "0" });
  const tabs = new Map(TABS.map((name) => [name, h("button", { type: "button", role: "tab", id: `tab-${name}`, class: "tab", aria: { controls: "inspector-panel" }, onClick: () => choose(name) }, t(`inspector.${name}`))]));
  const bar = h("div", { class: "tabs", role: "tablist", aria: { label: t("inspector.label") } }, [...tabs.values()]);
  bar.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!steps) return;
    const next = TABS[(TABS.indexOf(store.get().view.details.tab) + steps + TABS.length) % TABS.length];
    choose(next);
    tabs.get(next).focus();
  });
  const element = h("section", { class: "inspector", aria: { label: t("inspector.label") } }, bar, panel);
  let drawn = [];

  function choose(tab) {
    store.dispatch({ type: "details/changed", change: { tab } });
  }

  function show(subject) {
    const key = [subject.row, subject.turn, subject.details.tab, subject.context, subject.details.tab === "facts" && subject.run];
    if (key.every((part, index) => part === drawn[index]) && drawn.length) return;
    drawn = key;
    for (const [name, tab] of tabs) {
      const on = name === subject.details.tab;
      setAria(tab, "selected", on);
      tab.tabIndex = on ? 0 : -1;
      toggle(tab, "on", on);
    }
    toggle(element, "brief", subject.details.tab === "facts" && !subject.row);
    setAria(panel, "labelledby", `tab-${subject.details.tab}`);
    panel.replaceChildren(...[VIEWS[subject.details.tab](app, subject)].flat().filter(Boolean));
  }

  return { element, show };
}

const VIEWS = { facts: factsView, message: messageView, payload: payloadView, envelope: envelopeView, context: contextView };

function factsView(app, { row, turn, run }) {
  const { t } = app.words;
  if (!turn) return nothing(t("inspector.choose"));
  return row ? pairs([...rowFacts(app, row), ...numberFacts(app.words, row.envelope?.payload ?? {})]) : pairs(runFacts(app, turn, run));
}

/** Without a chosen event: the Run as a whole, the provider's own count of the last Turn among it. */
function runFacts({ words }, turn, run) {
  const { t, number, stopwatch } = words;
  const facts = [
    [t("fact.state"), t(`state.${turn.state}`)],
    [t("fact.run"), turn.run_id],
    [t("fact.events"), number(run?.log.length ?? 0)],
  ];
  const ms = Date.parse(turn.finished_at ?? "") - Date.parse(turn.created_at);
  if (!isActive(turn) && Number.isFinite(ms)) facts.push([t("fact.took"), stopwatch(ms)]);
  if (turn.usage) facts.push([t("fact.provider_usage"), t(turn.usage.complete ? "turn.usage" : "turn.usage_incomplete", { input: number(turn.usage.input), output: number(turn.usage.output) }), "weak"]);
  return facts;
}

function rowFacts({ words }, row) {
  const { t, seconds } = words;
  if (row.type === "projection") return [[t("fact.direction"), t("arrow.user_harness")], [t("fact.kind"), t("fact.projection")]];
  const facts = [
    [t("fact.seq"), row.envelope.from_seq ? `${row.envelope.from_seq}–${row.seq}` : String(row.seq ?? "–")],
    [t("fact.type"), row.type],
    [t("fact.direction"), t(`arrow.${row.arrow}`)],
  ];
  if (row.afterMs !== null) facts.push([t("fact.after"), seconds(row.afterMs)]);
  if (row.envelope.durability) facts.push([t("fact.kept"), t(row.ephemeral ? "fact.ephemeral" : "fact.durable")]);
  return facts;
}

/** Logical round, recovery attempt, provider call and transport attempt are four counts and never one. */
const NUMBERS = { round: "fact.round", call: "fact.call", tool_id: "fact.tool", call_id: "fact.call_id", outcome: "fact.outcome", reason: "fact.reason", code: "fact.code", stage: "fact.stage", decision: "fact.decision", ms: "fact.ms", expected_s: "fact.expected" };

/** Where the value is a word of a closed list, its words stand before it: the word itself is what the log and the API have. */
const WORDS = { outcome: "outcome.", stage: "stage.", decision: "timeline.decided_", code: "error.", reason: "recovery." };

function numberFacts({ t, has }, payload) {
  const facts = Object.entries(NUMBERS).filter(([name]) => payload[name] !== undefined && payload[name] !== null).map(([name, key]) => [t(key), String(payload[name])]);
  for (const [name, prefix] of Object.entries(WORDS)) {
    const ofDocument = name === "code" && payload.tool_id === "document/extract_text";
    const key = `${ofDocument ? "reading." : prefix}${payload[name]}`;
    if (payload[name] && has(key)) facts.push([t("fact.meaning"), t(key)]);
  }
  if (payload.attempt !== undefined) facts.push([t(payload.round !== undefined ? "fact.recovery_attempt" : "fact.transport_attempt"), String(payload.attempt)]);
  if (payload.usage) facts.push([t("fact.provider_usage"), t(payload.usage.complete ? "turn.usage" : "turn.usage_incomplete", payload.usage), "weak"]);
  return facts;
}

function messageView({ words: { t } }, { row }) {
  if (!row) return nothing(t("inspector.choose"));
  return row.message ? h("pre", { class: "wrapped", dir: "auto" }, row.message) : nothing(t("inspector.no_message"));
}

function payloadView({ words: { t } }, { row }) {
  if (!row) return nothing(t("inspector.choose"));
  const payload = row.envelope?.payload ?? row.envelope?.control;
  return payload ? json(payload) : nothing(t("inspector.projection"));
}

function envelopeView({ words: { t } }, { row }) {
  if (!row) return nothing(t("inspector.choose"));
  return row.envelope ? json(row.envelope) : nothing(t("inspector.projection"));
}

function contextView(app, { turn, context }) {
  const { t, tOr } = app.words;
  if (!turn) return nothing(t("inspector.choose"));
  const read = h("button", { type: "button", class: "button small", onClick: () => readContext(app, turn.run_id) }, t("context.read"));
  if (!context) return [h("p", { class: "muted" }, t("context.explain")), read];
  if (context.status === "loading") return nothing(t("context.loading"));
  if (context.status === "failed") return [h("p", { role: "alert" }, tOr(`error.${context.error.code}`, "error.other")), read];
  return contextParts(app, context.context);
}

async function readContext({ store, api }, runId) {
  store.dispatch({ type: "context/loading", runId });
  try {
    const context = await api.get(agentPath(store.get().view.agentId, "runs", runId, "context"));
    store.dispatch({ type: "context/loaded", runId, context });
  } catch (error) {
    if (error.name !== "ApiError") throw error;
    store.dispatch({ type: "context/failed", runId, error });
  }
}

const CONTEXT_NUMBERS = [
  "native_window", "window", "input_budget", "output_reserve", "headroom", "admission_tokens",
  "included", "omitted", "collapsed", "model_calls", "tool_calls", "run_s",
];

function contextParts({ words }, context) {
  const { t, tOr, number, bytes } = words;
  const heads = ["name", "role", "trust", "tokens", "bytes"].map((name) => h("th", { scope: "col" }, t(`context.${name}`)));
  const rows = (context.sections ?? []).map((section) =>
    h(
      "tr",
      { title: section.digest },
      h("th", { scope: "row" }, section.name),
      h("td", null, section.role),
      h("td", null, tOr(`trust.${section.trust}`, "trust.other", { trust: section.trust })),
      h("td", { class: "align-end" }, number(section.tokens ?? 0)),
      h("td", { class: "align-end" }, bytes(section.bytes ?? 0)),
    ),
  );
  const numbers = { ...context, ...context.history };
  const counts = CONTEXT_NUMBERS.filter((name) => typeof numbers[name] === "number");
  const source = { plan: "context.from_plan", run_started: "context.from_start" }[context.source] ?? "context.from_none";
  const table = h("table", null, h("thead", null, h("tr", null, heads)), h("tbody", null, rows));
  return [
    h("p", { class: "muted" }, t(source)),
    rows.length ? h("div", { class: "table-scroll", tabindex: "0", role: "region", aria: { label: t("inspector.context") } }, table) : null,
    pairs([...counts.map((name) => [t(`context.${name}`), number(numbers[name])]), ...(context.plan_digest ? [[t("context.plan"), context.plan_digest]] : [])]),
  ];
}

function pairs(facts) {
  return h("dl", { class: "facts" }, facts.map(([name, value, className]) => [h("dt", null, name), h("dd", { class: className }, value)]));
}

function json(value) {
  return h("pre", { class: "wrapped", dir: "ltr" }, JSON.stringify(value, null, 2));
}

function nothing(words) {
  return h("p", { class: "muted" }, words);
}
