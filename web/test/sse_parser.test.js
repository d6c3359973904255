import assert from "node:assert/strict";
import { test } from "node:test";
import { createSseParser } from "../js/sse_parser.js";

const STREAM = 'id: r:1\nevent: run.started\ndata: {"a":1}\n\n: beat\n\nevent: control\ndata: {"kind":"gap"}\n\ndata: x\r\ndata: y\r\n\r\n';
const EVENTS = [
  { id: "r:1", type: "run.started", data: '{"a":1}' },
  { id: "", type: "control", data: '{"kind":"gap"}' },
  { id: "", type: "message", data: "x\ny" },
];

for (const size of [1, 2, 3, 7, STREAM.length]) {
  test(`chunks of ${size} characters give the same events`, () => {
    const events = [];
    const feed = createSseParser((event) => events.push(event));
    for (let at = 0; at < STREAM.length; at += size) feed(STREAM.slice(at, at + size));
    assert.deepEqual(events, EVENTS);
  });
}

test("an unfinished event is held back", () => {
  const events = [];
  createSseParser((event) => events.push(event))("data: half\n");
  assert.deepEqual(events, []);
});
