/** Events as the server sends them. */

export const RUN = { agent_id: "agent", conversation_id: "talk", turn_id: "turn", run_id: "run" };

export function event(seq, type, payload = {}, more = {}) {
  const ephemeral = type.endsWith(".delta") || type === "run.stage";
  return { v: 1, event_id: `e${seq}`, ...RUN, seq, time: "2026-01-01T00:00:00Z", type, durability: ephemeral ? "ephemeral" : "durable", payload, ...more };
}

export const USAGE = { input: 10, output: 2, complete: true };
export const delta = (seq, text) => event(seq, "assistant.block.delta", { text });
export const completed = (seq) => event(seq, "run.completed", { reason: "stop", usage: USAGE, elapsed_ms: 5 });
