/** Running Runs: which of them are listened to, what follows from their events, and stopping them. */
import { agentPath } from "../api.js";
import { createRunStream } from "../run_stream.js";
import { isPiece, isTerminal, runOf } from "../state/run_events.js";
import { activeTurn, isActive, pageOf } from "../state/turns.js";

const STOP_POLL_MS = 700;
const STOP_POLLS = 40;
const REPLAY_PAGE = 200;
const REPLAY_PAGES = 12;
/** A question that is answered within this time was answered long ago. */
const ASK_SETTLES_MS = 150;

/** @returns {{agentId: string, runId: string, after: number}[]} every active Run this page knows of, once each */
export function wantedRuns(state) {
  const wanted = new Map();
  const add = (agentId, runId) => {
    if (agentId && runId && !runOf(state, runId).terminal) wanted.set(runId, { agentId, runId, after: runOf(state, runId).lastSeq });
  };
  for (const [agentId, list] of Object.entries(state.conversations)) for (const item of list.items) add(agentId, item.running_run_id);
  const { agentId, conversationId } = state.view;
  if (conversationId) add(agentId, activeTurn(pageOf(state, conversationId))?.run_id);
  return [...wanted.values()];
}

/** @returns {string[]} Runs of the shown Conversation that are over, of which the page saw a part but not the end */
export function halfSeenRuns(state) {
  const { turns } = pageOf(state, state.view.conversationId);
  return turns.filter((turn) => !isActive(turn) && isHalfSeen(runOf(state, turn.run_id))).map((turn) => turn.run_id);
}

function isHalfSeen({ log, terminal, replay }) {
  return log.length > 0 && !terminal && replay === "idle";
}

/** A reading from the start brings old questions too, each followed by its decision. */
function stillAsks({ log, terminal }, permissionId) {
  return !terminal && !log.some(({ type, payload }) => type === "permission.resolved" && payload.permission_id === permissionId);
}

export function createRunning({ store, api, lists, say, onSignedOut }) {
  const { dispatch } = store;

  const stream = createRunStream({
    fetch: (...args) => fetch(...args),
    timers: { setTimeout: (fn, ms) => setTimeout(fn, ms), clearTimeout: (id) => clearTimeout(id) },
    wanted: () => {
      takePieces();
      return wantedRuns(store.get());
    },
    onEvent,
    onControl,
    onStatus: (status) => dispatch({ type: "stream/status", status }),
    onSignedOut,
  });

  let pieces = [];
  let frame = 0;

  /** Pieces of text are drawn together, once per frame; anything else comes at once, behind the pieces before it. */
  function onEvent(envelope) {
    if (isPiece(envelope)) {
      pieces.push(envelope);
      frame ||= requestAnimationFrame(takePieces);
      return;
    }
    takePieces();
    take(envelope);
  }

  function takePieces() {
    cancelAnimationFrame(frame);
    frame = 0;
    const taken = pieces;
    pieces = [];
    if (taken.length) store.batch(() => taken.forEach(take));
  }

  function take(envelope) {
    const known = runOf(store.get(), envelope.run_id);
    if (envelope.seq <= known.lastSeq) return;
    dispatch({ type: "run/event", envelope });
    if (envelope.type === "run.started" && !hasTurn(envelope)) lists.loadPage(envelope.agent_id, envelope.conversation_id);
    if (envelope.type === "permission.requested") setTimeout(() => asks(envelope), ASK_SETTLES_MS);
    if (isTerminal(envelope)) afterEnd(envelope);
  }

  function asks(envelope) {
    if (stillAsks(runOf(store.get(), envelope.run_id), envelope.payload.permission_id)) dispatch({ type: "permission/asked", envelope });
  }

  function hasTurn({ conversation_id: conversationId, turn_id: turnId }) {
    const page = pageOf(store.get(), conversationId);
    return page.status !== "ready" || page.turns.some((turn) => turn.turn_id === turnId);
  }

  function afterEnd({ type, agent_id: agentId, conversation_id: conversationId }) {
    if (conversationId === store.get().view.conversationId) say(`announce.${type}`);
    lists.loadConversations(agentId);
    lists.loadFiles(agentId);
    if (pageOf(store.get(), conversationId).status === "ready") lists.loadPage(agentId, conversationId);
    lists.loadPreview(agentId, conversationId);
  }

  function onControl(control) {
    takePieces();
    dispatch({ type: "run/control", frame: control });
    const run = runOf(store.get(), control.run_id);
    if (control.kind === "resync") {
      dispatch({ type: "run/restart", runId: control.run_id });
      queueMicrotask(stream.resync);
    }
    if (control.kind === "snapshot" && control.turn) snapshot(control, run);
    if (control.kind === "gone") over(control.run_id, run);
  }

  function snapshot({ turn, run_id: runId }, run) {
    if (run.conversationId) dispatch({ type: "run/snapshot", conversationId: run.conversationId, turn });
    if (turn.state !== "running" && turn.state !== "preparing") over(runId, run);
  }

  /** The server knows no such active Run: the durable Turn says what became of it. */
  function over(runId, run) {
    dispatch({ type: "run/over", runId });
    const { agentId, conversationId } = store.get().view;
    lists.loadPage(run.agentId ?? agentId, run.conversationId ?? conversationId);
  }

  /** Asks for the stop, then waits for `idle`: only that means that nothing goes on any more. */
  async function stop(agentId, conversationId, turn) {
    dispatch({ type: "stop/requested", runId: turn.run_id });
    const preparation = agentPath(agentId, "sessions", conversationId, "preparation");
    try {
      const { operation_id: operation } = await api.get(preparation);
      if (operation) await api.post(`${preparation}/cancel`, { operation_id: operation });
      const safely = await idle(preparation);
      dispatch({ type: "stop/settled", runId: turn.run_id, safely });
      if (safely) say("announce.stopped");
      await lists.loadPage(agentId, conversationId);
    } catch (error) {
      dispatch({ type: "stop/settled", runId: turn.run_id, safely: false });
      throw error;
    }
  }

  async function idle(preparation) {
    for (let poll = 0; poll < STOP_POLLS; poll += 1) {
      const { state } = await api.get(preparation);
      if (state === "idle") return true;
      await new Promise((resolve) => setTimeout(resolve, STOP_POLL_MS));
    }
    return false;
  }

  /** The durable timeline of a Run that is over and that this page did not watch to its end. */
  async function replay(agentId, runId) {
    const run = runOf(store.get(), runId);
    if (run.terminal || run.replay === "loading" || run.replay === "ready") return;
    dispatch({ type: "run/replaying", runId });
    try {
      dispatch({ type: "run/replayed", runId, items: await durableEvents(agentId, runId) });
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      dispatch({ type: "run/replay_failed", runId });
    }
  }

  /** What was read meanwhile ended without this page: the rest of the events, and all that follows from an end. */
  async function catchUp() {
    const { agentId, conversationId } = store.get().view;
    for (const runId of halfSeenRuns(store.get())) {
      await replay(agentId, runId);
      const { terminal } = runOf(store.get(), runId);
      if (terminal) afterEnd({ type: terminal.type, agent_id: agentId, conversation_id: conversationId });
    }
  }

  async function durableEvents(agentId, runId) {
    const items = [];
    let after = 0;
    for (let page = 0; page < REPLAY_PAGES; page += 1) {
      const answer = await api.get(`${agentPath(agentId, "runs", runId, "replay")}?after_seq=${after}&limit=${REPLAY_PAGE}`);
      items.push(...answer.items);
      if (!answer.next_after_seq) break;
      after = answer.next_after_seq;
    }
    return items;
  }

  function listen() {
    stream.setVisible(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", () => stream.setVisible(document.visibilityState === "visible"));
    document.addEventListener("resume", stream.reopen);
    addEventListener("pagehide", () => stream.setVisible(false));
    addEventListener("pageshow", () => stream.setVisible(document.visibilityState === "visible"));
    addEventListener("online", stream.reopen);
    store.watch((state) => wantedRuns(state).map((run) => run.runId).sort().join(" "), () => queueMicrotask(stream.refresh));
  }

  store.watch((state) => halfSeenRuns(state).join(" "), (ids) => ids && queueMicrotask(catchUp));

  return { listen, reconnect: stream.reopen, stop, replay };
}
