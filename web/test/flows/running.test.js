import assert from "node:assert/strict";
import { test } from "node:test";
import { createApproving } from "../../js/flows/approving.js";
import { createLists } from "../../js/flows/lists.js";
import { createRunning } from "../../js/flows/running.js";
import { pendingOf } from "../../js/state/permissions.js";
import { runOf } from "../../js/state/run_events.js";
import { pageOf } from "../../js/state/turns.js";
import { completed, delta, event, RUN } from "../events.js";
import { AGENT, pageWith, refusal, serverThat, settled, storeAt, TALK, turnOf } from "./server.js";

globalThis.cancelAnimationFrame = () => {};
globalThis.requestAnimationFrame = () => 0;

const here = { agent_id: AGENT, conversation_id: TALK };
const at = (envelope) => ({ ...envelope, ...here });
const read = { call_id: "c", tool_id: "file/read_text" };
const EVENTS = [event(1, "run.started"), delta(2, "half"), event(3, "tool.call.started", read), event(4, "tool.call.finished", { ...read, outcome: "ok" }), completed(5)].map(at);
const over = turnOf("turn", { run_id: "run", assistant_text: "whole" });

function pageOn(answer) {
  const store = storeAt();
  const said = [];
  const api = serverThat((method, path) => {
    const own = answer?.(method, path);
    if (own) return own;
    if (path.includes("/replay")) return { items: EVENTS.filter((each) => each.durability === "durable") };
    return path.endsWith(TALK) ? pageWith([over]) : { items: [] };
  });
  const app = { store, api, say: (key) => said.push(key), onSignedOut() {} };
  app.lists = createLists(app);
  const asks = (part) => api.asked.filter(({ path }) => path.includes(part)).length;
  return { ...app, running: createRunning(app), approving: createApproving(app), said, asks };
}

/** The Run is over by the page's own Turn, while the page saw only the first two events. */
function seeHalf(page) {
  page.store.dispatch({ type: "page/loaded", agentId: AGENT, conversationId: TALK, answer: pageWith([{ ...over, state: "running", assistant_text: undefined }]) });
  for (const envelope of EVENTS.slice(0, 2)) page.store.dispatch({ type: "run/event", envelope });
  page.store.dispatch({ type: "page/loaded", agentId: AGENT, conversationId: TALK, answer: pageWith([over]) });
}

test("a Run that ended unseen is read to its end, and what follows from an end follows", async () => {
  const page = pageOn();
  seeHalf(page);
  await settled();
  const run = runOf(page.store.get(), "run");
  assert.deepEqual(run.log.map((each) => each.type), EVENTS.map((each) => each.type));
  assert.equal(run.tools.c.outcome, "ok");
  assert.deepEqual(page.said, ["announce.run.completed"]);
  assert.equal(page.asks("/replay"), 1);
  assert.equal(page.asks("/workspace"), 1);
  assert.equal(pageOf(page.store.get(), TALK).turns.length, 1);
});

test("a reading that failed can be tried again, one that came is not repeated", async () => {
  let broken = true;
  const page = pageOn((_, path) => {
    if (broken && path.includes("/replay")) throw refusal("network");
  });
  seeHalf(page);
  await settled();
  assert.equal(runOf(page.store.get(), "run").replay, "failed");
  broken = false;
  await page.running.replay(AGENT, "run");
  await page.running.replay(AGENT, "run");
  assert.equal(runOf(page.store.get(), "run").terminal.type, "run.completed");
  assert.equal(page.asks("/replay"), 2);
});

/** One connection for events that brings `envelopes` and stays open. */
function streamOf(envelopes) {
  const text = envelopes.map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`).join("");
  return async () => ({ ok: true, status: 200, body: new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode(text)) }) });
}

const ask = (seq, id) => at(event(seq, "permission.requested", { permission_id: id, call_id: "c", tool_id: "file/edit", preview: "", truncated: false }));

test("a reading from the start asks only what is still open, and says so once", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const page = pageOn();
  const envelopes = [EVENTS[0], ask(2, "old"), at(event(3, "permission.resolved", { permission_id: "old", decision: "approve" })), ask(4, "open")];
  const known = globalThis.fetch;
  globalThis.fetch = streamOf(envelopes);
  t.after(() => (globalThis.fetch = known));
  page.store.dispatch({ type: "conversations/loaded", agentId: AGENT, items: [{ conversation_id: TALK, running_run_id: RUN.run_id, updated_at: "" }] });
  page.running.reconnect();
  await settled();
  assert.equal(runOf(page.store.get(), RUN.run_id).lastSeq, 4);
  t.mock.timers.tick(1_000);
  assert.deepEqual(pendingOf(page.store.get().permissions, AGENT).map((each) => each.permission_id), ["open"]);
  assert.deepEqual(page.said, ["announce.approval"]);
  page.store.dispatch({ type: "permissions/loaded", agentId: AGENT, items: pendingOf(page.store.get().permissions, AGENT) });
  assert.deepEqual(page.said, ["announce.approval"]);
});
