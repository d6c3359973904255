/** The durable Turns of each opened Conversation: pages as read, moved on by durable events, never invented. */
import { only } from "./memory.js";
import { isTerminal } from "./run_events.js";

/**
 * @typedef {{turn_id: string, run_id: string, state: string, user_text: string, attachments: object[],
 *   assistant_text?: string, reason?: string, error?: object, usage?: object, created_at: string, finished_at?: string}} Turn
 */

export const noPage = { status: "idle", conversation: null, turns: [], before: null, earlier: "idle", error: null };

const ACTIVE = new Set(["preparing", "running"]);

/** @param {Record<string, typeof noPage>} state by Conversation id */
export function pages(state = {}, action) {
  const id = action.conversationId ?? action.envelope?.conversation_id;
  const page = state[id] ?? noPage;
  const put = (next) => (next === page ? state : { ...state, [id]: next });
  switch (action.type) {
    case "page/loading":
      return page.status === "ready" ? state : put({ ...page, status: "loading", error: null });
    case "page/loaded":
      return put(mergeNewest(page, action.answer));
    case "page/failed":
      return put({ ...page, status: page.status === "ready" ? "ready" : "failed", error: action.error });
    case "page/earlier_loading":
      return put({ ...page, earlier: "loading" });
    case "page/earlier_loaded":
      return put(prependEarlier(page, action.answer));
    case "page/earlier_failed":
      return put({ ...page, earlier: "failed" });
    case "conversation/upserted":
      return state[action.conversation.conversation_id] ? renamed(state, action.conversation) : state;
    case "conversation/removed":
      return only(state, (each) => each !== id);
    case "memory/kept":
      return only(state, (each) => action.conversationIds.includes(each));
    case "turn/accepted":
      return put({ ...page, status: "ready", turns: withAccepted(page.turns, action.turn) });
    case "run/snapshot":
      return put({ ...page, turns: upsertTurn(page.turns, action.turn) });
    case "run/event":
      return state[id] ? put(applyEvent(page, action.envelope)) : state;
    default:
      return state;
  }
}

export function pageOf(state, conversationId) {
  return state.pages[conversationId] ?? noPage;
}

export function isActive(turn) {
  return ACTIVE.has(turn.state);
}

export function activeTurn(page) {
  return page.turns.findLast(isActive) ?? null;
}

/** The newest page replaces what it overlaps; what was loaded before it, or accepted since it was asked for, stays. */
function mergeNewest(page, answer) {
  const known = new Set(answer.turns.map((turn) => turn.turn_id));
  const accepted = page.turns.filter((turn) => turn.accepted && isActive(turn) && !known.has(turn.turn_id));
  const fresh = [...answer.turns, ...accepted];
  const first = page.turns.findIndex((turn) => turn.turn_id === fresh[0]?.turn_id);
  const kept = first > 0 ? page.turns.slice(0, first) : [];
  return {
    status: "ready",
    conversation: answer.conversation,
    turns: [...kept, ...fresh.map((turn) => sameOr(page.turns, turn))],
    before: kept.length ? page.before : (answer.page.next_before_cursor ?? null),
    earlier: "idle",
    error: null,
  };
}

/** Only what stands before the first known Turn: what stands behind it is newer, and comes with the newest page. */
function prependEarlier(page, answer) {
  const known = new Set(page.turns.map((turn) => turn.turn_id));
  const overlap = answer.turns.findIndex((turn) => known.has(turn.turn_id));
  const older = overlap < 0 ? answer.turns : answer.turns.slice(0, overlap);
  return { ...page, turns: [...older, ...page.turns], before: answer.page.next_before_cursor ?? null, earlier: "idle" };
}

/** A Turn that reads the same stays the same object, so that its card is not drawn again. */
function sameOr(turns, fresh) {
  const old = turns.find((turn) => turn.turn_id === fresh.turn_id);
  if (!old) return fresh;
  if (!isActive(old) && isActive(fresh)) return old;
  return JSON.stringify(old) === JSON.stringify(fresh) ? old : fresh;
}

/** The server answers a repeated message with the Turn it already has: that one may be further than "accepted". */
function withAccepted(turns, turn) {
  return turns.some((each) => each.turn_id === turn.turn_id) ? turns : [...turns, { ...turn, accepted: true }];
}

/** A Turn that is over stays over: what says otherwise is older. */
function upsertTurn(turns, turn) {
  const place = turns.findIndex((each) => each.turn_id === turn.turn_id);
  if (place < 0) return [...turns, turn];
  if (!isActive(turns[place]) && isActive(turn)) return turns;
  return turns.map((each, index) => (index === place ? { ...each, ...turn } : each));
}

function applyEvent(page, envelope) {
  const place = page.turns.findIndex((turn) => turn.turn_id === envelope.turn_id);
  if (place < 0 || !isActive(page.turns[place])) return page;
  const turn = advance(page.turns[place], envelope);
  if (turn === page.turns[place]) return page;
  return { ...page, turns: page.turns.with(place, turn) };
}

/** What one durable event says about its Turn. */
function advance(turn, envelope) {
  const { type, payload, time } = envelope;
  if (type === "run.started") return turn.state === "running" ? turn : { ...turn, state: "running" };
  if (type === "assistant.message") return { ...turn, assistant_text: payload.text };
  if (!isTerminal(envelope)) return turn;
  const state = type.slice("run.".length);
  const ended = { ...turn, state, usage: payload.usage ?? turn.usage, finished_at: time };
  if (state === "completed") return { ...ended, reason: payload.reason };
  const { code, stage, elapsed_ms, message } = payload;
  return { ...ended, assistant_text: undefined, error: code ? { code, stage, elapsed_ms, message } : undefined };
}

function renamed(state, conversation) {
  const id = conversation.conversation_id;
  return { ...state, [id]: { ...state[id], conversation } };
}
