/** What the page knows of the server itself: health, models, commands, workspace files, the stream, next-turn capacity. */
import { keepSame } from "./agents.js";
import { only } from "./memory.js";

export const unknownGateway = {
  health: null,
  reachable: true,
  models: { status: "idle", items: [] },
  commands: {},
  files: {},
  previews: {},
  stream: "idle",
  visible: true,
};

export function gateway(state = unknownGateway, action) {
  switch (action.type) {
    case "health/loaded": {
      const health = keepSame(state.health, action.health);
      return health === state.health && state.reachable ? state : { ...state, health, reachable: true };
    }
    case "health/failed":
      return state.reachable ? { ...state, reachable: false } : state;
    case "models/loaded": {
      const items = keepSame(state.models.items, action.items);
      return items === state.models.items && state.models.status === "ready" ? state : { ...state, models: { status: "ready", items } };
    }
    case "models/failed":
      return state.models.status === "ready" ? state : { ...state, models: { status: "failed", items: [] } };
    case "commands/loaded":
      return { ...state, commands: { ...state.commands, [action.agentId]: action.items } };
    case "files/loaded": {
      const known = state.files[action.agentId];
      return withFiles(state, action.agentId, keepSame(known, [...stillOffered(known, action), ...action.items]));
    }
    case "files/offered": {
      const others = (state.files[action.agentId] ?? []).filter((file) => file.path !== action.file.path);
      return withFiles(state, action.agentId, [{ ...action.file, offered: true }, ...others]);
    }
    case "preview/loaded":
      return { ...state, previews: { ...state.previews, [action.conversationId]: action.preview } };
    case "conversation/removed":
      return { ...state, previews: only(state.previews, (id) => id !== action.conversationId) };
    case "memory/kept":
      return { ...state, previews: only(state.previews, (id) => action.conversationIds.includes(id)) };
    case "stream/status":
      return state.stream === action.status ? state : { ...state, stream: action.status };
    default:
      return state;
  }
}

/** A file that the operator chose stays known beyond the end of a list that does not hold all. */
function stillOffered(known, { items, truncated }) {
  if (!truncated || !known) return [];
  const listed = new Set(items.map((file) => file.path));
  return known.filter((file) => file.offered && !listed.has(file.path));
}

function withFiles(state, agentId, files) {
  return files === state.files[agentId] ? state : { ...state, files: { ...state.files, [agentId]: files } };
}

export function modelItems(state) {
  return state.gateway.models.items;
}

/** The model to name in a request: the draft's choice, unless the catalog is known and no longer has it. */
export function namedModelId(state, { modelId }) {
  const { status, items } = state.gateway.models;
  return status !== "ready" || items.some((model) => model.model_id === modelId) ? modelId : null;
}

/** The model that the next message would use: the draft's choice where it still exists, else the default. */
export function chosenModel(state, draft) {
  const items = modelItems(state);
  return items.find((model) => model.model_id === draft.modelId) ?? items.find((model) => model.default) ?? items[0] ?? null;
}
