/** A Run's log as rows of a sequence diagram with the lanes User, Harness, LLM, Tool. */

export const USER = 0;
export const HARNESS = 1;
export const LLM = 2;
export const TOOL = 3;

/**
 * What each type draws: lanes from and to (equal: a point on the lane), the arrow's name, the filter group.
 * A type that is not listed is drawn as a point on the Harness lane.
 */
const DRAWN = {
  "run.started": [HARNESS, HARNESS, "internal", "run"],
  "run.stage": [HARNESS, HARNESS, "internal", "stage"],
  "run.completed": [HARNESS, HARNESS, "internal", "run"],
  "run.failed": [HARNESS, HARNESS, "internal", "run"],
  "run.cancelled": [HARNESS, HARNESS, "internal", "run"],
  "run.interrupted": [HARNESS, HARNESS, "internal", "run"],
  "model.request.started": [HARNESS, LLM, "harness_llm", "model"],
  "model.transport.attempt.started": [LLM, LLM, "internal", "model"],
  "model.transport.attempt.finished": [LLM, LLM, "internal", "model"],
  "model.response.finished": [LLM, HARNESS, "llm_harness", "model"],
  "model.recovery.started": [LLM, HARNESS, "recovery_harness", "model"],
  "thinking.block.delta": [LLM, HARNESS, "llm_harness", "text"],
  "assistant.block.delta": [LLM, HARNESS, "llm_harness", "text"],
  "assistant.message": [HARNESS, USER, "harness_user", "text"],
  "tool.call.proposed": [HARNESS, TOOL, "harness_tool", "tool"],
  "tool.call.started": [HARNESS, TOOL, "harness_tool", "tool"],
  "tool.call.finished": [TOOL, HARNESS, "recovery_harness", "tool"],
  "permission.requested": [HARNESS, USER, "harness_user", "approval"],
  "permission.resolved": [USER, HARNESS, "user_harness", "approval"],
  "control.gap": [USER, TOOL, "replay_control", "control"],
  "control.snapshot": [USER, TOOL, "replay_control", "control"],
};

export const GROUPS = ["run", "stage", "model", "text", "tool", "approval", "control"];

/**
 * @typedef {{key: string, seq: number|null, type: string, from: number, to: number, arrow: string, group: string,
 *   ephemeral: boolean, label: Label, envelope: object|null, afterMs: number|null, message: string|null}} Row
 * @typedef {{key: string, fallback?: string, params: object, said?: Record<string, [string, string]>}} Label `said`: what is filled in by
 *   words, as key and fallback
 */

/** @returns {Row[]} first the operator's message, which is a projection of the Turn and no event of the journal */
export function timelineRows(run, turn) {
  const start = Date.parse(run.startedAt ?? "");
  const tools = run.tools;
  const rows = run.log.map((envelope, index) => rowOf(envelope, index, start, tools));
  return turn ? [projectionRow(turn), ...rows] : rows;
}

export function visibleRows(rows, hiddenGroups) {
  return hiddenGroups.length ? rows.filter((row) => !hiddenGroups.includes(row.group)) : rows;
}

/** The row `steps` after the selected one, held at both ends. */
export function stepped(rows, selectedKey, steps) {
  if (!rows.length) return null;
  const at = rows.findIndex((row) => row.key === selectedKey);
  if (at < 0) return (steps > 0 ? rows[0] : rows.at(-1)).key;
  return rows[Math.max(0, Math.min(rows.length - 1, at + steps))].key;
}

function projectionRow(turn) {
  return {
    key: "projection",
    seq: null,
    type: "projection",
    from: USER,
    to: HARNESS,
    arrow: "user_harness",
    group: "run",
    ephemeral: false,
    label: { key: "timeline.projection", params: {} },
    envelope: null,
    afterMs: null,
    message: turn.user_text,
  };
}

function rowOf(envelope, index, start, tools) {
  const [from, to, arrow, group] = DRAWN[envelope.type] ?? [HARNESS, HARNESS, "internal", "run"];
  const control = envelope.control ?? null;
  return {
    key: control ? `control-${index}` : `seq-${envelope.from_seq ?? envelope.seq}`,
    seq: envelope.seq ?? null,
    type: envelope.type,
    from,
    to,
    arrow,
    group,
    ephemeral: envelope.durability === "ephemeral",
    label: labelOf(envelope, tools),
    envelope: control ? { control } : envelope,
    afterMs: Number.isFinite(start) && envelope.time ? Math.max(0, Date.parse(envelope.time) - start) : null,
    message: messageOf(envelope),
  };
}

function labelOf({ type, payload, control }, tools) {
  const label = (key, params = {}, said = {}) => ({ key: `timeline.${key}`, params, said });
  switch (type) {
    case "run.stage":
      return { key: `stage.${payload.stage}`, fallback: "stage.other", params: {} };
    case "model.request.started":
      return label("request", { round: payload.round, call: payload.call });
    case "model.transport.attempt.started":
      return label("attempt", { attempt: payload.attempt });
    case "model.transport.attempt.finished":
      if (payload.outcome === "first_frame") return label("attempt_answered", { attempt: payload.attempt, ms: payload.ms ?? 0 });
      return label(payload.ms === undefined ? "attempt_ended" : "attempt_ended_after", { attempt: payload.attempt, ms: payload.ms });
    case "model.response.finished":
      return label("response", { n: payload.usage?.output ?? 0 });
    case "model.recovery.started":
      return label("recovery", {}, { reason: [`recovery.${payload.reason}`, "recovery.other"] });
    case "thinking.block.delta":
      return label("thinking", { n: payload.text.length });
    case "assistant.block.delta":
      return label("text", { n: payload.text.length });
    case "assistant.message":
      return label("answer", { n: payload.text.length });
    case "tool.call.proposed":
      return label("tool_proposed", { tool: payload.tool_id });
    case "tool.call.started":
      return label("tool_started", { tool: payload.tool_id });
    case "tool.call.finished":
      return label("tool_finished", { tool: payload.tool_id ?? tools[payload.call_id]?.tool_id }, { outcome: [`outcome.${payload.outcome}`, "outcome.failed"] });
    case "permission.resolved":
      return { key: `timeline.decided_${payload.decision}`, fallback: "timeline.decided_other", params: {} };
    case "control.gap":
      return label("gap", { from: control.from_seq ?? 0, to: control.to_seq ?? 0 });
    case "run.started":
    case "run.completed":
    case "run.failed":
    case "run.cancelled":
    case "run.interrupted":
    case "permission.requested":
    case "control.snapshot":
      return label(type);
    default:
      return label("unknown");
  }
}

/** What was said in words, where the event carries any. */
function messageOf({ type, payload }) {
  if (!payload) return null;
  if (typeof payload.text === "string") return payload.text;
  if (type === "tool.call.proposed" || type === "permission.requested") return payload.preview;
  if (type === "run.failed") return payload.message ?? null;
  return null;
}
