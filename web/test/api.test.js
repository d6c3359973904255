import assert from "node:assert/strict";
import { test } from "node:test";
import { agentPath, createApi, errorFrom } from "../js/api.js";

function answering(...answers) {
  const asked = [];
  const fetch = async (path, options) => {
    asked.push({ path, method: options.method, token: options.headers["X-CSRF-Token"], type: options.headers["Content-Type"], body: options.body });
    const { status = 200, body, date = null } = answers.shift();
    if (status === "cut") throw new TypeError("failed to fetch");
    return { ok: status < 300, status, headers: { get: () => date }, text: async () => (body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body)) };
  };
  return { fetch, asked };
}

function api(fetch) {
  const told = { signedOut: 0 };
  return { told, ...createApi({ fetch, onSignedOut: () => (told.signedOut += 1) }) };
}

test("the token of the session goes with every change and with no reading", async () => {
  const { fetch, asked } = answering({ body: { authenticated: true, csrf_token: "t1" } }, { body: {} }, { body: {} });
  const page = api(fetch);
  await page.session();
  await page.post("/x", { a: 1 });
  await page.get("/y");
  assert.deepEqual(asked.map(({ method, token }) => [method, token]), [["GET", undefined], ["POST", "t1"], ["GET", undefined]]);
  assert.equal(asked[1].body, '{"a":1}');
});

test("an archive goes as the bytes that it is, under its own type, and again with a new token", async () => {
  const refused = { status: 403, body: { error: { code: "csrf_failed", message: "", retryable: false } } };
  const bytes = new ArrayBuffer(3);
  const { fetch, asked } = answering(refused, { body: { authenticated: true, csrf_token: "t2" } }, { body: { done: true } });
  assert.deepEqual(await api(fetch).upload("/x", bytes, "application/zip"), { done: true });
  assert.deepEqual(asked.map(({ type, body }) => [type, body]), [["application/zip", bytes], [undefined, undefined], ["application/zip", bytes]]);
});

test("an outdated token is fetched anew once", async () => {
  const refused = { status: 403, body: { error: { code: "csrf_failed", message: "", retryable: false } } };
  const { fetch, asked } = answering(refused, { body: { authenticated: true, csrf_token: "t2" } }, { body: { done: true } });
  assert.deepEqual(await api(fetch).patch("/x", {}), { done: true });
  assert.deepEqual(asked.map((each) => each.token), [undefined, undefined, "t2"]);
});

test("an ended session is told", async () => {
  const { fetch } = answering({ status: 401, body: { error: { code: "unauthenticated", message: "", retryable: false } } });
  const page = api(fetch);
  await assert.rejects(page.get("/x"), { code: "unauthenticated", status: 401 });
  assert.equal(page.told.signedOut, 1);
});

test("a wrong token at the login is no ended session", async () => {
  const { fetch } = answering({ status: 401, body: { error: { code: "unauthenticated", message: "", retryable: false } } });
  const page = api(fetch);
  await assert.rejects(page.login("x"), { code: "unauthenticated" });
  assert.equal(page.told.signedOut, 0);
});

test("a request that does not arrive is `network`", async () => {
  const { fetch } = answering({ status: "cut" });
  await assert.rejects(api(fetch).get("/x"), { code: "network", retryable: true });
});

test("a proxy's page instead of an answer keeps its status", async () => {
  const { fetch } = answering({ status: 502, body: "<html>" });
  await assert.rejects(api(fetch).get("/x"), { code: "unexpected", status: 502, retryable: true });
  assert.equal(errorFrom(401, null).code, "unauthenticated");
});

test("the time is the server's, where its clock and this one differ", async () => {
  const hour = 3_600_000;
  const dates = [null, new Date().toUTCString(), new Date(Date.now() + hour).toUTCString(), new Date().toUTCString(), "no date"];
  const page = api(answering(...dates.map((date) => ({ body: {}, date }))).fetch);
  const offsets = [];
  for (const _date of dates) {
    await page.get("/x");
    offsets.push(Math.round((page.serverNow() - Date.now()) / hour));
  }
  assert.deepEqual(offsets, [0, 0, 1, 0, 0]);
});

test("ids cannot leave their place in a path", () => {
  assert.equal(agentPath("a/b", "sessions", "../c"), "/api/agents/a%2Fb/sessions/..%2Fc");
});
