/** The right side: one Run as a sequence diagram with its inspector. */
import { h, setAria, setText, toggle } from "../dom/h.js";
import { icon } from "../dom/icons.js";
import { attachMenu } from "../dom/menu.js";
import { runOf } from "../state/run_events.js";
import { GROUPS, stepped, timelineRows, visibleRows } from "../state/timeline.js";
import { isActive, pageOf } from "../state/turns.js";
import { inspector } from "./inspector.js";
import { taskStart } from "./task_start.js";
import { timeline } from "./timeline.js";

const PLAY_STEP_MS = 600;

export function runDetails(app, root) {
  const { store } = app;
  const { t } = app.words;
  root.setAttribute("aria-label", t("details.title"));
  const close = h("button", { type: "button", class: "icon-button", aria: { label: t("details.close") }, onClick: app.closeDetails }, icon("close"));
  const subject = h("button", { type: "button", class: "details-subject", title: t("details.find_turn"), onClick: () => findTurn(app) });
  const head = h("header", { class: "details-head" }, h("h2", null, t("details.title")), close);
  const task = taskStart(app);
  const about = h("div", { class: "details-about" }, subject, task.button);
  const controls = controlRow(app, rowsNow);
  const lanes = h("div", { class: "lanes", aria: { hidden: "true" } }, ["user", "harness", "llm", "tool"].map((lane) => h("span", null, t(`lane.${lane}`))));
  const note = h("p", { class: "details-note" });
  const again = h("button", { type: "button", class: "button small", hidden: true, onClick: () => tryAgain() }, t("action.try_again"));
  const rows = timeline(app, (key) => select(app, key));
  const inspect = inspector(app);
  root.replaceChildren(head, about, task.line, controls.element, lanes, h("div", { class: "timeline-scroll" }, rows.element, note, again), inspect.element);
  const cached = { run: null, turn: null, rows: [] };

  /** Rows are computed once per change of the Run, not once per look. */
  function rowsOf(run, turn) {
    if (cached.run !== run || cached.turn !== turn) Object.assign(cached, { run, turn, rows: timelineRows(run, turn) });
    return cached.rows;
  }

  function rowsNow() {
    const { details } = store.get().view;
    const { run, turn } = shownRun(store.get());
    return turn ? visibleRows(rowsOf(run, turn), details.hidden) : [];
  }

  function tryAgain() {
    close.focus();
    const { turn } = shownRun(store.get());
    if (turn) app.running.replay(store.get().view.agentId, turn.run_id);
  }

  store.watch(
    (state) => {
      const { run, turn } = state.view.details.open ? shownRun(state) : { run: null, turn: null };
      return [state.view.details, run, turn, state.view.context[run && state.view.details.runId]];
    },
    ([details, run, turn, context]) => {
      root.hidden = !details.open;
      task.show(turn?.run_id ?? null);
      if (!details.open) return;
      setText(subject, turn ? turn.user_text.slice(0, 200) : "");
      about.hidden = !turn;
      const shown = turn ? visibleRows(rowsOf(run, turn), details.hidden) : [];
      rows.show(shown, details.selected);
      setText(note, noteWords(t, run, turn, shown));
      note.hidden = !note.textContent;
      again.hidden = run?.replay !== "failed";
      controls.update(details, shown);
      inspect.show({ row: shown.find((row) => row.key === details.selected) ?? null, turn, run, details, context });
    },
  );
  playing(app, rowsNow);
}

/** The chosen Turn's Run; without a choice the last one of the Conversation. */
export function shownRun(state) {
  const { details, conversationId } = state.view;
  const { turns } = pageOf(state, conversationId);
  const turn = turns.find((each) => each.turn_id === details.turnId) ?? turns.at(-1) ?? null;
  return { turn, run: turn ? runOf(state, turn.run_id) : null };
}

function noteWords(t, run, turn, shown) {
  if (!turn) return t("details.no_run");
  if (run.replay === "loading") return t("details.loading");
  if (run.replay === "failed") return t("details.failed");
  if (shown.length <= 1 && !isActive(turn)) return t("details.gone");
  return "";
}

/** Where the details cover the Conversation, they go away first. */
function findTurn({ store, closeDetails, revealTurn }) {
  const { turnId } = store.get().view.details;
  if (document.body.classList.contains("details-open")) closeDetails();
  revealTurn(turnId);
}

function select({ store, revealTurn }, key) {
  store.dispatch({ type: "details/changed", change: { selected: key, playing: false } });
  revealTurn(store.get().view.details.turnId);
}

/** Back, play, forward, filter. */
function controlRow(app, rowsNow) {
  const { store } = app;
  const { t } = app.words;
  const move = (steps) => () => {
    const selected = stepped(rowsNow(), store.get().view.details.selected, steps);
    store.dispatch({ type: "details/changed", change: { selected, playing: false } });
  };
  const button = (name, label, run) => h("button", { type: "button", class: "icon-button", aria: { label }, title: label, onClick: run }, icon(name));
  const back = button("back", t("details.step_back"), move(-1));
  const play = button("play", t("details.play"), () => store.dispatch({ type: "details/changed", change: { playing: !store.get().view.details.playing } }));
  const forward = button("forward", t("details.step"), move(1));
  const place = h("span", { class: "details-place" });
  const filter = h("button", { type: "button", class: "quiet-button" }, t("details.filter"));
  attachMenu(filter, () => GROUPS.map((group) => filterItem(app, group)), { align: "end" });
  let playingNow = false;
  return {
    element: h("div", { class: "details-controls", role: "toolbar", aria: { label: t("details.controls") } }, back, play, forward, place, h("span", { class: "spring" }), filter),
    update({ selected, playing: on, hidden }, rows) {
      const at = rows.findIndex((row) => row.key === selected);
      setText(place, at < 0 ? t("details.count", { n: rows.length }) : t("details.place", { at: at + 1, n: rows.length }));
      for (const each of [back, play, forward]) each.disabled = !rows.length;
      toggle(filter, "on", hidden.length);
      if (on === playingNow) return;
      playingNow = on;
      play.replaceChildren(icon(on ? "pause" : "play"));
      setAria(play, "label", t(on ? "details.pause" : "details.play"));
    },
  };
}

function filterItem({ store, words: { t } }, group) {
  const { hidden } = store.get().view.details;
  const shown = !hidden.includes(group);
  const next = shown ? [...hidden, group] : hidden.filter((each) => each !== group);
  return { label: t(`group.${group}`), checked: shown, run: () => store.dispatch({ type: "details/changed", change: { hidden: next } }) };
}

/** While playing, the selection moves on by itself and stops at the end. */
function playing({ store }, rowsNow) {
  let timer = 0;
  store.watch(
    ({ view }) => view.details.open && view.details.playing,
    (on) => {
      clearInterval(timer);
      if (!on) return;
      timer = setInterval(() => {
        const { selected } = store.get().view.details;
        const next = stepped(rowsNow(), selected, 1);
        store.dispatch({ type: "details/changed", change: next === selected ? { playing: false } : { selected: next } });
      }, PLAY_STEP_MS);
    },
  );
}
