/** The Conversation as a document: one card per durable Turn, older ones above, following the newest. */
import { h, setAria, setText } from "../dom/h.js";
import { icon } from "../dom/icons.js";
import { keyedList } from "../dom/keyed_list.js";
import { markReading } from "../dom/reading_place.js";
import { createScrollFollower } from "../dom/scroll_follower.js";
import { isActive, pageOf } from "../state/turns.js";
import { runOf } from "../state/run_events.js";
import { otherAgent, subagentsOf } from "../state/subagents.js";
import { turnCard } from "./turn_card.js";
import { welcome } from "./welcome.js";

export function transcript(app, root) {
  const { store } = app;
  const { t } = app.words;
  const column = h("div", { class: "column" });
  const older = h("button", { type: "button", class: "quiet-button", onClick: loadEarlier });
  const earlier = h("div", { class: "earlier", hidden: true }, older);
  const turns = h("div", { class: "turns" });
  const status = h("div", { class: "page-state" });
  column.append(earlier, turns, status);
  const latest = h("button", { type: "button", class: "to-latest", hidden: true, onClick: () => follower.follow() }, icon("arrowDown"), t("transcript.latest"));
  root.replaceChildren(column);
  root.setAttribute("aria-label", t("transcript.label"));
  root.setAttribute("tabindex", "0");
  root.after(h("div", { class: "to-latest-place" }, latest));

  const showLatest = (following) => {
    latest.hidden = following;
  };
  const follower = createScrollFollower(root, column, showLatest, () => turns.childElementCount > 0);
  const seen = seenTurns(app, root);
  let list = null;
  let drawn = [];
  let shownId;
  let shownAbove = null;
  let shownState = { key: null, life: new AbortController() };

  function show([page, runs, agentId, conversationId]) {
    if (conversationId !== shownId || !list) {
      shownId = conversationId;
      list = freshList();
      drawn = [];
      follower.follow();
    }
    const rows = rowsOf(page, runs);
    const above = `${conversationId} ${page.before ? page.earlier : "none"}`;
    const change = () => {
      if (rows !== drawn) list.show(rows);
      if (above !== shownAbove) drawEarlier(page);
      drawState(page, agentId, conversationId);
    };
    const ends = endsNow(drawn, rows);
    const moves = drawn.length > 0 && (ends || above !== shownAbove || rows[0]?.turn.turn_id !== drawn[0].turn.turn_id);
    if (moves) follower.keepPlace(() => markPlace(root, turns, ends), change);
    else change();
    drawn = rows;
    shownAbove = above;
  }

  /** One button in all its states, so that it keeps its height and the focus. */
  function drawEarlier(page) {
    const held = document.activeElement === older;
    setText(older, t(page.earlier === "loading" ? "transcript.loading_earlier" : page.earlier === "failed" ? "transcript.earlier_failed" : "transcript.earlier"));
    setAria(older, "disabled", page.earlier === "loading" ? "true" : null);
    earlier.hidden = !page.before;
    if (held && earlier.hidden) root.focus({ preventScroll: true });
  }

  function loadEarlier() {
    const { agentId, conversationId } = store.get().view;
    if (pageOf(store.get(), conversationId).earlier !== "loading") app.lists.loadEarlier(agentId, conversationId);
  }

  function freshList() {
    turns.replaceChildren();
    return keyedList(turns, {
      key: (row) => row.turn.turn_id,
      create: (row) => {
        const card = turnCard(app, row.turn);
        seen.watch(card.element, row.turn.turn_id);
        return card;
      },
    });
  }

  /** Only Turns whose own data changed get a new row object; 1,000 finished Turns cost one comparison each. */
  function rowsOf(page, runs) {
    const before = new Map(drawn.map((row) => [row.turn.turn_id, row]));
    const state = store.get();
    const asked = new Map(subagentsOf(state, state.view.conversationId).map((subagent) => [subagent.run_id, subagent]));
    const rows = page.turns.map((turn) => {
      const old = before.get(turn.turn_id);
      const subagent = asked.get(turn.run_id) ?? null;
      const other = subagent && otherAgent(state, subagent);
      const same = old && old.turn === turn && old.run === runs[turn.run_id] && old.subagent === subagent && old.other === other;
      return same ? old : { turn, run: runs[turn.run_id], subagent, other };
    });
    return drawn.length === rows.length && rows.every((row, index) => row === drawn[index]) ? drawn : rows;
  }

  function drawState(page, agentId, conversationId) {
    const parts = stateParts(app, page, agentId, conversationId);
    if (parts.key === shownState.key) return;
    shownState.life.abort();
    shownState = { key: parts.key, life: new AbortController() };
    status.replaceChildren(...parts.draw(shownState.life.signal));
  }

  store.watch(
    ({ pages, runs, view, agents, subagents }) => [pageOf({ pages }, view.conversationId), runs, view.agentId, view.conversationId, agents, subagents],
    show,
  );
  store.watch(
    ({ view }) => view.details.open && view.details.turnId,
    (turnId) => markSelected(turns, turnId, list),
  );
  return {
    follow: () => requestAnimationFrame(follower.follow),
    reveal(turnId) {
      list?.get(turnId)?.element.scrollIntoView({ block: "start" });
      follower.settle();
    },
  };
}

/** Whether a Turn changes from live to durable: then its text is drawn anew, and the reader must keep the place. */
function endsNow(before, after) {
  return before.some((row, index) => isActive(row.turn) && after[index] && !isActive(after[index].turn));
}

/** The first card that reaches into what the reader sees; in one that is drawn anew, the line that is being read. */
function markPlace(root, turns, drawnAnew) {
  const top = root.getBoundingClientRect().top;
  const card = [...turns.children].find((each) => each.getBoundingClientRect().bottom > top) ?? turns.lastElementChild;
  const before = card?.getBoundingClientRect().top;
  const line = drawnAnew && card ? markReading(root, card) : () => null;
  return () => (card?.isConnected ? (line() ?? card.getBoundingClientRect().top - before) : null);
}

function markSelected(turns, turnId, list) {
  for (const card of turns.querySelectorAll(".turn.located")) card.classList.remove("located");
  if (turnId) list?.get(turnId)?.element.classList.add("located");
}

/** First use, empty, loading and failed; nothing once there are Turns. */
function stateParts(app, page, agentId, conversationId) {
  const { t } = app.words;
  if (page.turns.length) return { key: "turns", draw: () => [] };
  if (!agentId) return beforeFirstAgent(app);
  if (!conversationId || page.status === "ready") return { key: `welcome ${agentId}`, draw: (signal) => [welcome(app, signal)] };
  if (page.status === "failed") {
    const again = h("button", { type: "button", class: "button", onClick: () => app.lists.loadPage(agentId, conversationId) }, t("action.try_again"));
    const words = app.words.tOr(`error.${page.error.code}`, "error.other");
    return { key: `failed ${page.error.code}`, draw: () => [h("div", { class: "empty-page", role: "alert" }, h("h2", null, t("transcript.failed")), h("p", null, words), again)] };
  }
  return { key: "loading", draw: () => [skeleton(t("transcript.loading"))] };
}

function beforeFirstAgent({ store, lists, words: { t, tOr } }) {
  const { status, error } = store.get().agents;
  if (status !== "failed") return { key: "starting", draw: () => [skeleton(t("transcript.loading"))] };
  const again = h("button", { type: "button", class: "button", onClick: lists.loadAgents }, t("action.try_again"));
  const words = tOr(`error.${error.code}`, "error.other");
  return { key: `no agents ${error.code}`, draw: () => [h("div", { class: "empty-page", role: "alert" }, h("h2", null, t("agent.list_failed")), h("p", null, words), again)] };
}

function skeleton(label) {
  const lines = ["short", "long", "long", "middle"].map((width) => h("div", { class: `skeleton-line ${width}` }));
  const text = h("p", { class: "visually-hidden", role: "status" });
  setText(text, label);
  return h("div", { class: "skeleton" }, text, lines);
}

/** What a finished Turn did is read when its card comes into sight, one Run after the other. */
function seenTurns(app, root) {
  const waiting = [];
  let reading = false;
  const ids = new WeakMap();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        observer.unobserve(entry.target);
        waiting.push(ids.get(entry.target));
      }
      readNext();
    },
    { root, rootMargin: "200px" },
  );

  async function readNext() {
    if (reading) return;
    reading = true;
    while (waiting.length) {
      const state = app.store.get();
      const turnId = waiting.pop();
      const turn = pageOf(state, state.view.conversationId).turns.find((each) => each.turn_id === turnId);
      if (turn && !isActive(turn) && !runOf(state, turn.run_id).log.length) await app.running.replay(state.view.agentId, turn.run_id);
    }
    reading = false;
  }

  return {
    watch(element, turnId) {
      ids.set(element, turnId);
      observer.observe(element);
    },
  };
}
