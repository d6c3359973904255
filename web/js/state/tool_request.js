/** Tool calls that a model has written as text in its answer. Such a call was never executed: one that is executed does not stay in an answer. */

const FENCED = /^ {0,3}(```|~~~)[^\n]*\n[\s\S]*?^ {0,3}\1[^\n]*$/gm;
const ONLY_FENCED = /^```(?:json)?[ \t]*\n([\s\S]*)\n```$/;
const TAGGED = /^[ \t]*<(?:tool_call>|function_call>|function=[^>\n]{1,128}>)/m;

/** Whether the answer has such a call: in tags, outside code, or as the one object that it is as a whole. */
export function holdsToolRequest(text) {
  const whole = text.trim();
  return isCall(ONLY_FENCED.exec(whole)?.[1] ?? whole) || TAGGED.test(text.replace(FENCED, ""));
}

function isCall(source) {
  if (!source.trimStart().startsWith("{")) return false;
  try {
    const value = JSON.parse(source);
    const call = value.type === "function" && isObject(value.function) ? value.function : value;
    return isObject(call.arguments ?? call.parameters) && typeof (call.name ?? call.function ?? call.tool) === "string";
  } catch {
    return false;
  }
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
