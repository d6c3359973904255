/** A server for the flows: each request waits for an answer from the test, or gets one from `answers`. */
import { ApiError } from "../../js/api.js";
import { initialState, reduce } from "../../js/state/root.js";
import { createStore } from "../../js/store.js";

export const AGENT = "00000000-0000-4000-8000-000000000001";
export const TALK = "00000000-0000-4000-8000-0000000000c1";
export const OTHER = "00000000-0000-4000-8000-0000000000c2";
export const SESSIONS = `/api/agents/${AGENT}/sessions`;

export function storeAt(conversationId = TALK) {
  const store = createStore(reduce, initialState());
  store.dispatch({ type: "view/opened", agentId: AGENT, conversationId });
  return store;
}

/** @param {(method: string, path: string, body?: object) => unknown} answer throws or returns what the server says */
export function serverThat(answer) {
  const asked = [];
  const request = (method) => async (path, body) => {
    asked.push({ method, path, body });
    return answer(method, path, body);
  };
  return { asked, get: request("GET"), post: request("POST"), upload: request("POST"), patch: request("PATCH"), remove: request("DELETE"), serverNow: () => Date.parse("2026-01-01T00:00:00Z") };
}

export function refusal(code) {
  return new ApiError({ code, status: 409 });
}

/** A promise and the hand that fulfils it. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

export const turnOf = (id, more = {}) => ({ turn_id: id, run_id: `run-${id}`, state: "completed", user_text: id, attachments: [], created_at: "2026-01-01T00:00:00Z", ...more });
export const pageWith = (turns, cursor) => ({ conversation: { conversation_id: TALK, title: "T" }, turns, page: cursor ? { next_before_cursor: cursor } : {} });
export const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
