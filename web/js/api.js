/** Every request of the page: JSON, the CSRF token, one error type. */

const REQUEST_TIMEOUT_MS = 30_000;
const JSON_TYPE = "application/json";
/** The server writes its time in whole seconds, and an answer is on its way for a while: less is no difference of clocks. */
const CLOCK_SLACK_MS = 3_000;

/** What went wrong, in the words of the API: `code` is one of the closed list, or `network`. */
export class ApiError extends Error {
  constructor({ code, message, retryable = false, status = 0, details = null }) {
    super(message || code);
    this.name = "ApiError";
    this.code = code;
    this.retryable = retryable;
    this.status = status;
    this.details = details;
  }
}

/**
 * @param {{fetch: typeof fetch, onSignedOut: () => void}} wiring
 * `onSignedOut` is called when the server no longer knows this session.
 */
export function createApi({ fetch, onSignedOut }) {
  let csrfToken = "";
  let clockOffsetMs = 0;

  async function session() {
    const answer = await request("GET", "/api/session");
    csrfToken = answer.csrf_token ?? "";
    return answer;
  }

  async function login(token) {
    const answer = await request("POST", "/api/login", { token });
    csrfToken = answer.csrf_token;
    return answer;
  }

  async function mutate(method, path, body, type) {
    try {
      return await request(method, path, body, type);
    } catch (error) {
      if (error.code !== "csrf_failed") throw error;
      await session();
      return request(method, path, body, type);
    }
  }

  async function request(method, path, body, type = JSON_TYPE) {
    const response = await send(method, path, body, type);
    const answer = await parse(response);
    noteTime(response.headers?.get("date"));
    if (response.ok) return answer;
    const error = errorFrom(response.status, answer);
    if (error.code === "unauthenticated" && path !== "/api/login") onSignedOut();
    throw error;
  }

  function noteTime(date) {
    const offset = Date.parse(date ?? "") - Date.now();
    if (Math.abs(offset - clockOffsetMs) > CLOCK_SLACK_MS) clockOffsetMs = Math.abs(offset) > CLOCK_SLACK_MS ? offset : 0;
  }

  async function send(method, path, body, type) {
    const headers = { Accept: "application/json" };
    if (method !== "GET") {
      headers["Content-Type"] = type;
      if (csrfToken) headers["X-CSRF-Token"] = csrfToken;
    }
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), REQUEST_TIMEOUT_MS);
    try {
      return await fetch(path, {
        method,
        headers,
        body: body === undefined || type !== JSON_TYPE ? body : JSON.stringify(body),
        credentials: "same-origin",
        cache: "no-store",
        signal: patience.signal,
      });
    } catch (cause) {
      throw new ApiError({ code: "network", message: String(cause), retryable: true });
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    session,
    login,
    logout: () => mutate("POST", "/api/logout"),
    get: (path) => request("GET", path),
    post: (path, body = {}) => mutate("POST", path, body),
    /** Bytes as they are, under their own type. */
    upload: (path, bytes, type) => mutate("POST", path, bytes, type),
    patch: (path, body) => mutate("PATCH", path, body),
    remove: (path) => mutate("DELETE", path),
    /** Milliseconds since 1970 by the server's clock, as far as its answers tell. */
    serverNow: () => Date.now() + clockOffsetMs,
  };
}

async function parse(response) {
  const text = await response.text();
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** An answer without the API's error shape (a proxy's page, a cut body) keeps its HTTP status as the code. */
export function errorFrom(status, answer) {
  const error = answer?.error;
  if (error?.code) return new ApiError({ ...error, status });
  if (status === 401) return new ApiError({ code: "unauthenticated", status });
  return new ApiError({ code: "unexpected", message: `HTTP ${status}`, status, retryable: status >= 500 });
}

/** The routes below one Agent, with every id escaped once. */
export function agentPath(agentId, ...parts) {
  return ["/api/agents", agentId, ...parts].map((part, index) => (index ? encodeURIComponent(part) : part)).join("/");
}
