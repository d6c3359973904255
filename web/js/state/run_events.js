/**
 * One Run as this page has seen it: the log for the timeline, and the live view that is derived from it.
 * Events may come twice or late; only a seq above the last one counts.
 */

import { only } from "./memory.js";

const TERMINALS = new Set(["run.completed", "run.failed", "run.cancelled", "run.interrupted"]);
const DELTAS = new Set(["assistant.block.delta", "thinking.block.delta"]);

/**
 * @typedef {{kind: "text", text: string} | {kind: "tool", callId: string}} Part
 * @typedef {{call_id: string, tool_id: string, preview: string, phase: "proposed"|"started"|"finished", outcome?: string, code?: string, receipt?: unknown}} ToolCall
 */

export const emptyRun = {
  agentId: null,
  conversationId: null,
  turnId: null,
  lastSeq: 0,
  log: [],
  parts: [],
  tools: {},
  thinking: "",
  stage: null,
  startedAt: null,
  terminal: null,
  storageFull: false,
  replay: "idle",
};

/** @param {Record<string, typeof emptyRun>} state by Run id */
export function runs(state = {}, action) {
  const put = (runId, next) => (next === state[runId] ? state : { ...state, [runId]: next });
  const run = (runId) => state[runId] ?? emptyRun;
  switch (action.type) {
    case "run/event":
      return put(action.envelope.run_id, applyEvent(run(action.envelope.run_id), action.envelope));
    case "run/control":
      return put(action.frame.run_id, applyControl(run(action.frame.run_id), action.frame));
    case "run/restart":
      return put(action.runId, { ...emptyRun, agentId: run(action.runId).agentId, conversationId: run(action.runId).conversationId });
    case "run/replaying":
      return put(action.runId, { ...run(action.runId), replay: "loading" });
    case "run/replayed":
      return put(action.runId, { ...action.items.reduce(applyEvent, run(action.runId)), replay: "ready" });
    case "run/replay_failed":
      return put(action.runId, { ...run(action.runId), replay: "failed" });
    case "conversation/removed":
      return only(state, (_id, each) => each.conversationId !== action.conversationId);
    case "memory/kept":
      return only(state, (id, each) => action.runIds.includes(id) || action.conversationIds.includes(each.conversationId));
    case "turn/accepted":
      return put(action.turn.run_id, begin(run(action.turn.run_id), action));
    default:
      return state;
  }
}

/** A piece of text that the next one continues. */
export function isPiece(envelope) {
  return DELTAS.has(envelope.type);
}

export function isTerminal(envelope) {
  return TERMINALS.has(envelope.type);
}

export function runOf(state, runId) {
  return state.runs[runId] ?? emptyRun;
}

export function toolCalls(run) {
  return Object.values(run.tools);
}

export function applyEvent(run, envelope) {
  if (envelope.seq <= run.lastSeq || run.terminal) return run;
  const next = {
    ...run,
    agentId: envelope.agent_id,
    conversationId: envelope.conversation_id,
    turnId: envelope.turn_id,
    startedAt: run.startedAt ?? envelope.time,
    lastSeq: envelope.seq,
    log: logged(run.log, envelope),
    storageFull: false,
  };
  return derive(next, envelope);
}

/** Neighbouring deltas of one kind share a row: the log stays short however long the answer grows. */
function logged(log, envelope) {
  const last = log.at(-1);
  if (!DELTAS.has(envelope.type) || last?.type !== envelope.type) return [...log, envelope];
  const payload = { ...envelope.payload, text: last.payload.text + envelope.payload.text };
  return log.with(-1, { ...envelope, from_seq: last.from_seq ?? last.seq, payload });
}

function derive(run, { type, payload, time }) {
  switch (type) {
    case "run.started":
      return { ...run, startedAt: time };
    case "run.stage":
      return { ...run, stage: { name: payload.stage, expectedS: payload.expected_s ?? null, since: time } };
    case "thinking.block.delta":
      return { ...run, thinking: run.thinking + payload.text };
    case "assistant.block.delta":
      return { ...run, parts: withText(run.parts, payload.text) };
    case "tool.call.proposed":
      return proposed(run, payload);
    case "tool.call.started":
    case "tool.call.finished":
      return { ...run, tools: { ...run.tools, [payload.call_id]: moved(run.tools[payload.call_id], type, payload) } };
    default:
      return TERMINALS.has(type) ? { ...run, terminal: { type, payload, time }, stage: null } : run;
  }
}

function withText(parts, text) {
  const last = parts.at(-1);
  if (last?.kind !== "text") return [...parts, { kind: "text", text }];
  return parts.with(-1, { kind: "text", text: last.text + text });
}

/** A call that the model wrote as text was streamed as text before it was understood: that text is no answer. */
function proposed(run, payload) {
  const before = payload.written_as_text && run.parts.at(-1)?.kind === "text" ? run.parts.slice(0, -1) : run.parts;
  const call = { call_id: payload.call_id, tool_id: payload.tool_id, preview: payload.preview ?? "", phase: "proposed" };
  return {
    ...run,
    parts: [...before, { kind: "tool", callId: payload.call_id }],
    tools: { ...run.tools, [payload.call_id]: call },
  };
}

function moved(call, type, payload) {
  const known = call ?? { call_id: payload.call_id, tool_id: payload.tool_id, preview: "" };
  if (type === "tool.call.started") return { ...known, phase: "started" };
  return { ...known, phase: "finished", outcome: payload.outcome, code: payload.code, receipt: payload.receipt };
}

function applyControl(run, frame) {
  if (frame.kind === "storage_full") return { ...run, storageFull: true };
  if (frame.kind !== "gap" && frame.kind !== "snapshot") return run;
  const lastSeq = Math.max(run.lastSeq, frame.kind === "gap" ? (frame.to_seq ?? 0) : 0);
  return { ...run, lastSeq, log: [...run.log, { type: `control.${frame.kind}`, control: frame }] };
}

function begin(run, { agentId, conversationId, turn }) {
  return { ...run, agentId, conversationId, turnId: turn.turn_id, startedAt: run.startedAt ?? turn.created_at };
}
