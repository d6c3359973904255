/** Whom the Runs of each Conversation have asked, and what came of it. */
import { agentById, keepSame } from "./agents.js";
import { only } from "./memory.js";
import { runOf } from "./run_events.js";
import { pageOf } from "./turns.js";

/**
 * @typedef {{direction: "to_child"|"to_parent", text: string, created_at: string}} Letter
 * @typedef {{task_id: string, run_id: string, state: string, code?: string, mailbox: Letter[], created_at: string, finished_at?: string,
 *   child: {agent_id: string, agent_name: string, conversation_id: string, run_id?: string, deleted: boolean}}} Subagent
 */

const DELEGATE = "agent/delegate";
const NONE = [];

/** @param {Record<string, Subagent[]>} state by Conversation */
export function subagents(state = {}, action) {
  switch (action.type) {
    case "subagents/loaded": {
      const known = state[action.conversationId] ?? NONE;
      const items = action.items.map((item) => keepSame(known.find(({ task_id: id }) => id === item.task_id), item));
      return items.length === known.length && items.every((item, index) => item === known[index]) ? state : { ...state, [action.conversationId]: items };
    }
    case "conversation/removed":
      return only(state, (id) => id !== action.conversationId);
    case "memory/kept":
      return only(state, (id) => action.conversationIds.includes(id));
    default:
      return state;
  }
}

export function subagentsOf(state, conversationId) {
  return state.subagents[conversationId] ?? NONE;
}

export function isGoing({ state }) {
  return state === "queued" || state === "running";
}

/** What the shown Conversation says of delegations, as one word that is another one when the chain may have changed. */
export function delegationMark(state) {
  const { turns } = pageOf(state, state.view.conversationId);
  let mark = "";
  for (const turn of turns) {
    const { tools } = runOf(state, turn.run_id);
    for (const id in tools) if (hasBegun(tools[id])) mark += ` ${id} ${tools[id].phase}`;
  }
  return mark;
}

function hasBegun({ tool_id: toolId, phase, outcome }) {
  return toolId === DELEGATE && (phase === "started" || (phase === "finished" && outcome !== "denied" && outcome !== "refused"));
}

/** Whether a call is under way, or the chain says that a delegation is. */
export function delegates(state) {
  return delegationMark(state).includes(" started") || subagentsOf(state, state.view.conversationId).some(isGoing);
}

/**
 * The Agent that was asked, as the list tells of it now.
 * @returns {"there"|"waits"|"deleted"} `waits`: for the operator, while the delegation goes on
 */
export function otherAgent(state, subagent) {
  const agent = agentById(state, subagent.child.agent_id);
  if (subagent.child.deleted || (state.agents.status === "ready" && !agent)) return "deleted";
  return isGoing(subagent) && (agent?.waiting ?? 0) > 0 ? "waits" : "there";
}
