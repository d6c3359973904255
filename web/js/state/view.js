/** What the operator looks at. The address bar holds Agent and Conversation; the rest lives here. */
import { draftKey } from "./drafts.js";
import { KEPT_CONVERSATIONS } from "./memory.js";

export const firstView = {
  agentId: null,
  conversationId: null,
  drawer: null,
  agentsOpen: false,
  details: { open: false, runId: null, turnId: null, selected: null, hidden: [], tab: "facts", playing: false },
  context: {},
  results: {},
  stopping: {},
  recent: [],
  notices: {},
};

export function view(state = firstView, action) {
  switch (action.type) {
    case "view/opened":
      return opened(state, action);
    case "view/drawer":
      return state.drawer === action.drawer ? state : { ...state, drawer: action.drawer };
    case "view/agents_toggled":
      return { ...state, agentsOpen: action.open ?? !state.agentsOpen };
    case "details/opened":
      return { ...state, details: { ...state.details, open: true, ...action.target, ...fresh(state, action.target) } };
    case "details/closed":
      return { ...state, details: { ...state.details, open: false, playing: false } };
    case "details/changed":
      return { ...state, details: { ...state.details, ...action.change } };
    case "context/loading":
      return { ...state, context: { ...state.context, [action.runId]: { status: "loading" } } };
    case "context/loaded":
      return { ...state, context: { ...state.context, [action.runId]: { status: "ready", context: action.context } } };
    case "context/failed":
      return { ...state, context: { ...state.context, [action.runId]: { status: "failed", error: action.error } } };
    case "command/result":
      return { ...state, results: put(state.results, action.key, action.result) };
    case "turn/accepted":
      return { ...state, results: put(state.results, action.conversationId, null) };
    case "stop/requested":
      return { ...state, stopping: { ...state.stopping, [action.runId]: "asked" } };
    case "stop/settled":
      return { ...state, stopping: { ...state.stopping, [action.runId]: action.safely ? "safe" : null } };
    case "notice/shown":
      return { ...state, notices: put(state.notices, action.key, action.notice) };
    case "notice/closed":
      return { ...state, notices: put(state.notices, action.key, null) };
    default:
      return state;
  }
}

/** What was said in a place is read when it is left; what comes for another place waits there. */
function opened(state, { agentId, conversationId }) {
  if (state.agentId === agentId && state.conversationId === conversationId) return state;
  const left = draftKey(state.agentId, state.conversationId);
  return {
    ...state,
    agentId,
    conversationId,
    recent: conversationId ? [conversationId, ...state.recent.filter((id) => id !== conversationId)].slice(0, KEPT_CONVERSATIONS) : state.recent,
    results: put(state.results, left, null),
    notices: put(state.notices, left, null),
    details: { ...state.details, runId: null, turnId: null, selected: null, playing: false },
  };
}

/** By the same key as a draft; null takes an entry away. */
function put(entries, key, entry) {
  if (entry) return { ...entries, [key]: entry };
  if (!(key in entries)) return entries;
  const { [key]: _gone, ...rest } = entries;
  return rest;
}

/** Another Run starts with nothing selected. */
function fresh(state, target) {
  return target.runId === state.details.runId ? {} : { selected: null, playing: false };
}
