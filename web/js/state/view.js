/** What the operator looks at. The address bar holds Agent and Conversation; the rest lives here. */

export const firstView = {
  agentId: null,
  conversationId: null,
  drawer: null,
  agentsOpen: false,
  details: { open: false, runId: null, turnId: null, selected: null, hidden: [], tab: "facts", playing: false },
  context: {},
  commandResult: null,
  stopping: {},
  notice: null,
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
      return { ...state, commandResult: action.result };
    case "turn/accepted":
      return state.commandResult ? { ...state, commandResult: null } : state;
    case "stop/requested":
      return { ...state, stopping: { ...state.stopping, [action.runId]: "asked" } };
    case "stop/settled":
      return { ...state, stopping: { ...state.stopping, [action.runId]: action.safely ? "safe" : null } };
    case "notice/shown":
      return { ...state, notice: action.notice };
    case "notice/closed":
      return state.notice ? { ...state, notice: null } : state;
    default:
      return state;
  }
}

function opened(state, { agentId, conversationId }) {
  if (state.agentId === agentId && state.conversationId === conversationId) return state;
  return {
    ...state,
    agentId,
    conversationId,
    commandResult: null,
    notice: null,
    details: { ...state.details, runId: null, turnId: null, selected: null, playing: false },
  };
}

/** Another Run starts with nothing selected. */
function fresh(state, target) {
  return target.runId === state.details.runId ? {} : { selected: null, playing: false };
}
