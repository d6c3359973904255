/** What the server says by a code, in the operator's language. Where a code is new to this page, the server's own words stand. */

/** @returns {string} what an error means */
export function errorWords({ tOr }, code) {
  return tOr(`error.${code}`, "error.other");
}

/** @returns {string|null} the particulars of a refusal: which file and why, which field, how to mend it */
export function errorDetail({ t, has }, { code, details }) {
  const known = details ?? {};
  if (code === "attachment_refused") return attachmentDetail({ t, has }, known);
  if (code === "instructions_refused") return instructionsDetail({ t, has }, known);
  if (code !== "invalid_request") return null;
  if (known.reason && has(`detail.${known.reason}`)) return t(`detail.${known.reason}`);
  return known.field ? t("detail.field", { field: known.field }) : null;
}

function attachmentDetail(words, { path, reason }) {
  if (!reason) return null;
  return words.t("detail.attachment", { path, reason: fileReason(words, { reason_code: reason }) });
}

function instructionsDetail(words, { reason, tokens, allowed }) {
  if (reason === "too_many_tokens") return words.t("detail.instructions_long", { tokens, allowed });
  if (reason === "mode" || reason === "access") return words.t("detail.instructions_mode");
  return reason ? fileReason(words, { reason_code: reason }) : null;
}

/** Why a workspace file cannot be attached. */
export function fileReason({ t, has }, { reason_code: code, reason }) {
  return code && has(`file.${code}`) ? t(`file.${code}`) : reason || t("file.other");
}

/** Why a model cannot be used. */
export function modelReason({ t, has }, { reason_code: code, reason }) {
  if (code && has(`model_off.${code}`)) return t(`model_off.${code}`);
  if (code && has(`error.${code}`)) return t(`error.${code}`);
  return reason || t("model_off.other");
}

/** What a slash command is for. */
export function commandHelp({ t, has }, { name, help }) {
  const key = `said.help_${name.replace(/^\//, "")}`;
  return has(key) ? t(key) : help;
}

/** What a slash command answered, line by line; whole in the server's words when one line is new to this page. */
export function commandOutput(words, { output, lines }) {
  if (!lines?.length || !lines.every(({ code }) => words.has(`said.${code}`))) return output;
  return lines.map(({ code, values }) => words.t(`said.${code}`, inWords(words, values))).join("\n");
}

/** Values that are words of a closed list are said in the operator's language. */
function inWords(words, values) {
  const { tOr } = words;
  const said = { ...values };
  if (values.phase) said.phase = tOr(`phase.${values.phase}`, "phase.other");
  if (values.preparation) said.preparation = tOr(`preparation.${values.preparation}`, "preparation.other");
  if (values.model_state) said.model_state = tOr(`model_state.${values.model_state}`, "phase.other");
  if (values.trust) said.trust = tOr(`trust.${values.trust}`, "trust.other", { trust: values.trust });
  if (values.reason_code || values.reason) said.reason = modelReason(words, values);
  return said;
}
