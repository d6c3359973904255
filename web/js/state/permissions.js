/** What waits for the operator's decision, per Agent, and each permission in full once it was read. */
import { keepSame } from "./agents.js";
import { only } from "./memory.js";
import { isTerminal } from "./run_events.js";

/** @typedef {{permission_id: string, run_id: string, call_id: string, tool_id: string, preview: string, truncated: boolean, diff?: string, expires_at: string, state: string}} Permission */

export const noPermissions = { pending: {}, full: {} };

export function permissions(state = noPermissions, action) {
  switch (action.type) {
    case "permissions/loaded":
      return setPending(state, action.agentId, keepSame(pendingOf(state, action.agentId), onlyPending(action.items)));
    case "permission/loading":
      return setFull(state, action.permissionId, { status: "loading", permission: null, error: null });
    case "permission/loaded":
      return setFull(state, action.permission.permission_id, { status: "ready", permission: action.permission, error: null });
    case "permission/failed":
      return setFull(state, action.permissionId, { status: "failed", permission: null, error: action.error });
    case "permission/deciding":
      return setFull(state, action.permissionId, { ...state.full[action.permissionId], deciding: true, error: null });
    case "permission/undecided":
      return setFull(state, action.permissionId, { ...state.full[action.permissionId], deciding: false, error: action.error });
    case "permission/gone":
      return withoutFull(removed(state, (item) => item.permission_id === action.permissionId), [action.permissionId]);
    case "permission/asked":
      return requested(state, action.envelope);
    case "run/event":
      return applyEvent(state, action.envelope);
    case "run/over":
      return removed(state, (item) => item.run_id === action.runId);
    default:
      return state;
  }
}

export function pendingOf(state, agentId) {
  return state.pending[agentId] ?? NONE;
}

const NONE = [];

function applyEvent(state, envelope) {
  const { type, payload } = envelope;
  if (type === "permission.resolved") return removed(state, (item) => item.permission_id === payload.permission_id);
  if (isTerminal(envelope)) return removed(state, (item) => item.run_id === envelope.run_id);
  return state;
}

function requested(state, { agent_id: agentId, run_id, payload }) {
  const known = pendingOf(state, agentId);
  if (known.some((item) => item.permission_id === payload.permission_id)) return state;
  return setPending(state, agentId, [...known, { ...payload, run_id, state: "pending" }]);
}

function removed(state, goes) {
  for (const [agentId, items] of Object.entries(state.pending)) {
    const gone = items.filter(goes);
    if (gone.length) return withoutFull(setPending(state, agentId, items.filter((item) => !goes(item))), gone.map((item) => item.permission_id));
  }
  return state;
}

/** A decided one is not looked at again. */
function withoutFull(state, ids) {
  const full = only(state.full, (id) => !ids.includes(id));
  return full === state.full ? state : { ...state, full };
}

function onlyPending(items) {
  return items.filter((item) => item.state === "pending");
}

function setPending(state, agentId, items) {
  return items === state.pending[agentId] ? state : { ...state, pending: { ...state.pending, [agentId]: items } };
}

function setFull(state, permissionId, full) {
  return { ...state, full: { ...state.full, [permissionId]: full } };
}
