import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { createTasks } from "../../js/flows/tasks.js";
import { ApiError } from "../../js/api.js";
import { AGENT, refusal, serverThat, settled } from "./server.js";

const BASE = `/api/agents/${AGENT}/tasks`;
const taskIn = (state, more = {}) => ({ task_id: "t", run_id: "r", kind: "runtime-compile", state, ...more });

test("a Task is started beside its Run, and ended by its own id", async () => {
  const api = serverThat((method, path) => (path === BASE ? { items: [taskIn("running")] } : taskIn("queued")));
  const tasks = createTasks({ api });
  assert.equal((await tasks.start(AGENT, "r")).state, "queued");
  assert.deepEqual(await tasks.list(AGENT), [taskIn("running")]);
  await tasks.cancel(AGENT, "t");
  assert.deepEqual(api.asked.map(({ method, path, body }) => [method, path, body]), [
    ["POST", `/api/agents/${AGENT}/runs/r/tasks`, { kind: "runtime-compile" }],
    ["GET", BASE, undefined],
    ["POST", `${BASE}/t/cancel`, undefined],
  ]);
});

test("a Task is followed to its end, over an answer that does not come, and no further", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const answers = [taskIn("queued"), new ApiError({ code: "network", retryable: true }), taskIn("running"), taskIn("completed", { result: "fine" })];
  const api = serverThat(() => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  });
  const seen = [];
  createTasks({ api }).follow(AGENT, taskIn("queued"), ({ state }) => seen.push(state));
  for (let look = 0; look < 6; look += 1) {
    await settled();
    mock.timers.tick(2_000);
  }
  mock.timers.reset();
  assert.deepEqual(seen, ["queued", "running", "completed"]);
  assert.equal(api.asked.length, 4);
});

test("who has gone elsewhere, or whose Task is gone, is told nothing more", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const api = serverThat(() => {
    if (api.asked.length === 2) throw refusal("not_found");
    return taskIn("running");
  });
  const seen = [];
  const tasks = createTasks({ api });
  const stop = tasks.follow(AGENT, taskIn("queued"), ({ state }) => seen.push(state));
  stop();
  await settled();
  assert.deepEqual(seen, []);
  tasks.follow(AGENT, taskIn("queued"), ({ state }) => seen.push(state));
  await settled();
  mock.timers.tick(10_000);
  await settled();
  mock.timers.reset();
  assert.deepEqual([seen, api.asked.length], [[], 2]);
});
