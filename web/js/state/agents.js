/** The Agents of this installation and what is known of each. */

/** @typedef {{agent_id: string, name: string, system: boolean, generation: number, phase: string, running: number|boolean}} Agent */

export const noAgents = { status: "idle", items: [], error: null };

export function agents(state = noAgents, action) {
  switch (action.type) {
    case "agents/loading":
      return state.items.length ? state : { ...state, status: "loading" };
    case "agents/loaded": {
      const items = keepSame(state.items, action.items);
      return items === state.items && state.status === "ready" ? state : { status: "ready", items, error: null };
    }
    case "agents/failed":
      return state.items.length ? state : { ...state, status: "failed", error: action.error };
    case "agent/upserted":
      return { ...state, items: upsert(state.items, action.agent) };
    case "agent/removed":
      return { ...state, items: state.items.filter((agent) => agent.agent_id !== action.agentId) };
    default:
      return state;
  }
}

export function agentById(state, agentId) {
  return state.agents.items.find((agent) => agent.agent_id === agentId) ?? null;
}

/** The Agent to show first: the one remembered, else the system Agent, else any. */
export function firstAgent(items, rememberedId) {
  return items.find((agent) => agent.agent_id === rememberedId) ?? items.find((agent) => agent.system) ?? items[0] ?? null;
}

/** `incomplete` repairs itself at the next use. */
const OPEN_PHASES = new Set(["ready", "running", "incomplete"]);

/** A phase in which the Agent takes no new message. */
export function isSettling(agent) {
  return Boolean(agent) && !OPEN_PHASES.has(agent.phase);
}

/** The shown Agent cannot be worked with any more, as long as it stands like this. */
export function isClosed(state) {
  return ["damaged", "deleting"].includes(agentById(state, state.view.agentId)?.phase);
}

function upsert(items, agent) {
  const known = items.some((item) => item.agent_id === agent.agent_id);
  if (!known) return [...items, agent];
  return items.map((item) => (item.agent_id === agent.agent_id ? agent : item));
}

/** A refetched list that says the same stays the same object, so that nothing is drawn again. */
export function keepSame(before, after) {
  return JSON.stringify(before) === JSON.stringify(after) ? before : after;
}
