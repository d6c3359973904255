/**
 * The meter's sentence from `context-preview`. Primary is the projection with tools; without it the chat-only
 * baseline, named as such. Old usage is never taken for occupancy. What is used, what can be used and what is left are
 * counted alike by the server; none of them may be set beside the window, which is counted otherwise.
 */

/**
 * @typedef {{used_tokens: number, usable_tokens: number, left_percent: number, operational_context_tokens: number,
 *   safe_user_tokens: number, safe_user_bytes: number, compact_before_user_tokens: number, error_tokens: number}} Projection
 * @typedef {{kind: "unknown"} | {kind: "reason", state: string, reason: string} |
 *   {kind: "measure", chatOnly: boolean, used: number, usable: number, leftPercent: number, window: number, safeTokens: number,
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
  return {
    kind: "measure",
    chatOnly,
    used: projection.used_tokens,
    usable: projection.usable_tokens,
    leftPercent: projection.left_percent,
    window: projection.operational_context_tokens,
    safeTokens: projection.safe_user_tokens,
    safeBytes: projection.safe_user_bytes,
    beforeCompaction: projection.compact_before_user_tokens,
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
