import assert from "node:assert/strict";
import { test } from "node:test";
import { createRunStream, MAX_TRIES, streamUrl } from "../js/run_stream.js";

/** Timers that run when the test says so. */
function fakeTimers() {
  const waiting = new Map();
  let next = 1;
  return {
    waiting,
    setTimeout: (run, ms) => (waiting.set(next, { run, ms }), next++),
    clearTimeout: (id) => waiting.delete(id),
    fire(ms) {
      const entry = [...waiting].find(([, timer]) => timer.ms === ms);
      assert.ok(entry, `no timer of ${ms} ms`);
      waiting.delete(entry[0]);
      entry[1].run();
    },
  };
}

function fakeServer() {
  const connections = [];
  async function fetch(url, { signal }) {
    const connection = { url, signal };
    const body = new ReadableStream({
      start(controller) {
        connection.send = (envelope) => controller.enqueue(new TextEncoder().encode(`event: ${envelope.type}\ndata: ${JSON.stringify(envelope)}\n\n`));
        connection.end = () => controller.close();
        connection.cut = () => controller.error(new Error("cut"));
        signal.addEventListener("abort", () => {
          if (!connection.over) controller.error(signal.reason);
        });
      },
    });
    connections.push(connection);
    if (fetch.status !== 200) return { ok: false, status: fetch.status, json: async () => ({ error: { code: fetch.code } }) };
    return { ok: true, status: 200, body };
  }
  fetch.status = 200;
  return { fetch, connections };
}

function setUp(runs) {
  const timers = fakeTimers();
  const server = fakeServer();
  const seen = { events: [], statuses: [], signedOut: 0 };
  const wanted = { runs };
  const stream = createRunStream({
    fetch: server.fetch,
    timers,
    wanted: () => wanted.runs,
    onEvent: (envelope) => seen.events.push(envelope),
    onControl: () => {},
    onStatus: (status) => seen.statuses.push(status),
    onSignedOut: () => (seen.signedOut += 1),
  });
  return { stream, timers, ...server, seen, wanted };
}

const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
const run = (runId, after = 0) => ({ agentId: "a", runId, after });

test("one connection carries all wanted Runs, each after its last seq", async () => {
  const { stream, connections } = setUp([run("r1", 7), run("r2")]);
  stream.refresh();
  await settled();
  assert.deepEqual(connections.map((each) => each.url), ["/api/events?run=a%2Fr1%407&run=a%2Fr2%400"]);
  assert.equal(streamUrl([run("r1", 7)]), "/api/events?run=a%2Fr1%407");
});

test("nothing is opened without a Run, and the same Runs are not opened twice", async () => {
  const { stream, connections, wanted, seen } = setUp([]);
  stream.refresh();
  wanted.runs = [run("r1")];
  stream.refresh();
  stream.refresh();
  await settled();
  assert.equal(connections.length, 1);
  assert.deepEqual(seen.statuses, ["idle", "live"]);
});

test("after three failed reconnects it waits for the button", async () => {
  const { stream, connections, timers, seen, fetch } = setUp([run("r1")]);
  fetch.status = 503;
  stream.refresh();
  await settled();
  for (const ms of [500, 2000, 5000]) {
    timers.fire(ms);
    await settled();
  }
  assert.equal(connections.length, 1 + MAX_TRIES);
  assert.equal(seen.statuses.at(-1), "lost");
  stream.refresh();
  await settled();
  assert.equal(connections.length, 1 + MAX_TRIES);
  fetch.status = 200;
  stream.reopen();
  await settled();
  assert.equal(seen.statuses.at(-1), "live");
});

test("a page that is one too many says so, not that the connection is lost", async () => {
  const { stream, timers, seen, fetch } = setUp([run("r1")]);
  Object.assign(fetch, { status: 429, code: "subscriber_limit" });
  stream.refresh();
  await settled();
  for (const ms of [500, 2000, 5000]) {
    timers.fire(ms);
    await settled();
  }
  assert.equal(seen.statuses.at(-1), "crowded");
});

test("an event between two cuts starts the count anew", async () => {
  const { stream, connections, timers, seen } = setUp([run("r1")]);
  stream.refresh();
  await settled();
  for (let cut = 0; cut < 6; cut += 1) {
    connections.at(-1).send({ type: "run.stage", seq: cut + 1 });
    await settled();
    connections.at(-1).cut();
    await settled();
    timers.fire(500);
    await settled();
  }
  assert.equal(connections.length, 7);
  assert.equal(seen.events.length, 6);
  assert.ok(!seen.statuses.includes("lost"));
});

test("a hidden page holds no connection and takes up again when it is seen", async () => {
  const { stream, connections, wanted } = setUp([run("r1")]);
  stream.refresh();
  await settled();
  stream.setVisible(false);
  assert.ok(connections[0].signal.aborted);
  wanted.runs = [run("r1", 5)];
  stream.setVisible(true);
  await settled();
  assert.equal(connections[1].url, "/api/events?run=a%2Fr1%405");
});

test("a connection without a sign of life is given up", async () => {
  const { stream, connections, timers, seen } = setUp([run("r1")]);
  stream.refresh();
  await settled();
  timers.fire(40_000);
  await settled();
  assert.equal(seen.statuses.at(-1), "retrying");
  assert.ok(connections[0].signal.aborted);
});

test("a session that is over is told, not retried", async () => {
  const { stream, timers, seen, fetch } = setUp([run("r1")]);
  fetch.status = 401;
  stream.refresh();
  await settled();
  assert.equal(seen.signedOut, 1);
  assert.equal(timers.waiting.size, 0);
});

test("an orderly end with nothing left to hear is quiet", async () => {
  const { stream, connections, seen, wanted, timers } = setUp([run("r1")]);
  stream.refresh();
  await settled();
  wanted.runs = [];
  connections[0].end();
  await settled();
  assert.equal(seen.statuses.at(-1), "idle");
  assert.equal(timers.waiting.size, 0);
});

test("a Run that must be read anew gets another connection, and the tries are counted", async () => {
  const { stream, connections, timers, seen } = setUp([run("r1")]);
  stream.refresh();
  await settled();
  for (const ms of [500, 2000, 5000]) {
    stream.resync();
    await settled();
    assert.ok(connections.at(-1).signal.aborted);
    timers.fire(ms);
    await settled();
  }
  stream.resync();
  await settled();
  assert.equal(connections.length, 4);
  assert.equal(seen.statuses.at(-1), "lost");
});
