/**
 * The meter's sentence from `context-preview`. Primary is the projection with tools; without it the chat-only
 * baseline, named as such. Old usage is never taken for occupancy.
 */

/**
 * @typedef {{fixed_context_tokens: number, operational_context_tokens: number, safe_user_tokens: number,
 *   safe_user_bytes: number, compact_before_user_tokens: number, error_tokens: number, left_percent?: number}} Projection
 * @typedef {{kind: "unknown"} | {kind: "reason", state: string, reason: string} |
 *   {kind: "measure", chatOnly: boolean, used: number, window: number, leftPercent: number, safeTokens: number,
 *    safeBytes: number, beforeCompaction: number, error: number}} Meter
 */

/** @returns {Meter} */
export function meterOf(preview) {
  if (!preview) return { kind: "unknown" };
  const projection = preview.projection ?? preview.chat_only_projection ?? null;
  if (!projection || (preview.state !== "available" && !preview.chat_only_projection)) {
    return { kind: "reason", state: preview.state, reason: preview.reason ?? "other" };
  }
  return measure(projection, !preview.projection);
}

function measure(projection, chatOnly) {
  const window = Math.max(1, projection.operational_context_tokens);
  const used = Math.max(0, projection.fixed_context_tokens);
  return {
    kind: "measure",
    chatOnly,
    used,
    window,
    leftPercent: projection.left_percent ?? Math.max(0, Math.min(100, Math.round((100 * (window - used)) / window))),
    safeTokens: Math.max(0, projection.safe_user_tokens),
    safeBytes: Math.max(0, projection.safe_user_bytes),
    beforeCompaction: Math.max(0, projection.compact_before_user_tokens),
    error: projection.error_tokens,
  };
}

export const MESSAGE_MAX_BYTES = 32_768;

/**
 * Whether a message of `bytes` may go: too long for the API, longer than what is safe, or fine.
 * @returns {"fine"|"beyond_safe"|"too_long"}
 */
export function messageFit(bytes, meter) {
  if (bytes > MESSAGE_MAX_BYTES) return "too_long";
  if (meter.kind === "measure" && !meter.chatOnly && bytes > meter.safeBytes) return "beyond_safe";
  return "fine";
}
