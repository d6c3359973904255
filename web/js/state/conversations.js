/** The list of Conversations of each Agent, newest activity first. */
import { keepSame } from "./agents.js";
import { isTerminal } from "./run_events.js";

/** @typedef {{conversation_id: string, title: string, created_at: string, updated_at: string, revision: number, running_run_id?: string}} Conversation */

export const noConversations = { status: "idle", items: [], error: null };

/** @param {Record<string, typeof noConversations>} state by Agent id */
export function conversations(state = {}, action) {
  const { agentId } = action;
  const list = state[agentId] ?? noConversations;
  const put = (next) => (next === list ? state : { ...state, [agentId]: next });
  switch (action.type) {
    case "conversations/loading":
      return list.status === "ready" ? state : put({ ...list, status: "loading" });
    case "conversations/loaded": {
      const items = keepSame(list.items, action.items);
      return items === list.items && list.status === "ready" ? state : put({ status: "ready", items, error: null });
    }
    case "conversations/failed":
      return list.status === "ready" ? state : put({ ...list, status: "failed", error: action.error });
    case "conversation/upserted":
      return put({ ...list, status: "ready", items: upsert(list.items, action.conversation) });
    case "conversation/removed":
      return put({ ...list, items: list.items.filter((item) => item.conversation_id !== action.conversationId) });
    case "turn/accepted":
      return put({ ...list, items: markRunning(list.items, action.conversationId, action.turn.run_id) });
    case "run/event":
      return isTerminal(action.envelope) ? clearRunning(state, action.envelope.run_id) : state;
    case "run/over":
      return clearRunning(state, action.runId);
    default:
      return state;
  }
}

export function conversationById(state, agentId, conversationId) {
  return listOf(state, agentId).items.find((item) => item.conversation_id === conversationId) ?? null;
}

export function listOf(state, agentId) {
  return state.conversations[agentId] ?? noConversations;
}

const DAY_MS = 86_400_000;

/**
 * Conversations under the headings a reader expects.
 * @returns {{label: "today"|"yesterday"|"week"|"month"|"older", items: Conversation[]}[]}
 */
export function groupByAge(items, now) {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const groups = new Map();
  for (const item of items) {
    const label = ageLabel(Date.parse(item.updated_at), midnight);
    if (!groups.has(label)) groups.set(label, []);
    groups.get(label).push(item);
  }
  return [...groups].map(([label, group]) => ({ label, items: group }));
}

function ageLabel(time, midnight) {
  if (time >= midnight) return "today";
  if (time >= midnight - DAY_MS) return "yesterday";
  if (time >= midnight - 7 * DAY_MS) return "week";
  if (time >= midnight - 30 * DAY_MS) return "month";
  return "older";
}

function upsert(items, conversation) {
  const rest = items.filter((item) => item.conversation_id !== conversation.conversation_id);
  const place = items.findIndex((item) => item.conversation_id === conversation.conversation_id);
  if (place < 0) return [conversation, ...rest];
  return [...rest.slice(0, place), conversation, ...rest.slice(place)];
}

function markRunning(items, conversationId, runId) {
  const item = items.find((each) => each.conversation_id === conversationId);
  if (!item) return items;
  const rest = items.filter((each) => each !== item);
  return [{ ...item, running_run_id: runId, updated_at: new Date().toISOString() }, ...rest];
}

function clearRunning(state, runId) {
  for (const [agentId, list] of Object.entries(state)) {
    if (!list.items.some((item) => item.running_run_id === runId)) continue;
    const items = list.items.map((item) => (item.running_run_id === runId ? { ...item, running_run_id: null } : item));
    return { ...state, [agentId]: { ...list, items } };
  }
  return state;
}
