import assert from "node:assert/strict";
import { test } from "node:test";
import { initialOf, oneLine, wellFormed } from "../../js/dom/plain_text.js";
import { placePanel } from "../../js/dom/popover.js";
import { randomId } from "../../js/dom/random_id.js";
import { findLine, lettersOf } from "../../js/dom/reading_place.js";
import { followsAfterScroll, isAtEnd } from "../../js/dom/scroll_follower.js";
import { isShort, visibleHeight } from "../../js/dom/viewport.js";
import { formatPlace, parsePlace } from "../../js/flows/navigation.js";
import { nameFault } from "../../js/flows/organising.js";
import { wantedRuns } from "../../js/flows/running.js";
import { sendable } from "../../js/flows/sending.js";
import { initialState, reduce } from "../../js/state/root.js";
import { cutToBytes } from "../../js/views/approval_card.js";
import { completed } from "../events.js";

const viewport = { left: 0, top: 0, width: 360, height: 740 };
const panel = { width: 200, height: 150 };

test("a panel stands below its button, or above where there is more room", () => {
  assert.deepEqual(placePanel({ left: 20, right: 56, top: 100, bottom: 136 }, panel, viewport), { left: 20, top: 142, maxHeight: 590 });
  assert.deepEqual(placePanel({ left: 20, right: 56, top: 690, bottom: 726 }, panel, viewport), { left: 20, top: 534, maxHeight: 676 });
});

test("a panel never leaves what is visible", () => {
  assert.equal(placePanel({ left: 320, right: 356, top: 10, bottom: 46 }, panel, viewport).left, 152);
  assert.equal(placePanel({ left: 2, right: 38, top: 10, bottom: 46 }, panel, viewport, "end").left, 8);
  const keyboard = { left: 0, top: 0, width: 360, height: 200 };
  const spot = placePanel({ left: 20, right: 56, top: 120, bottom: 156 }, { width: 200, height: 900 }, keyboard);
  assert.deepEqual([spot.top, spot.maxHeight], [8, 106]);
});

const scroll = (scrollTop, scrollHeight = 2000) => ({ scrollTop, clientHeight: 500, scrollHeight });

test("the end has a small margin", () => {
  assert.ok(isAtEnd(scroll(1468)));
  assert.ok(!isAtEnd(scroll(1467)));
});

test("following stops when the reader goes up and starts again at the end", () => {
  assert.equal(followsAfterScroll(true, { top: 1500, height: 2000 }, scroll(1200)), false);
  assert.equal(followsAfterScroll(false, { top: 1200, height: 2000 }, scroll(1300)), false);
  assert.equal(followsAfterScroll(false, { top: 1300, height: 2000 }, scroll(1490)), true);
});

test("new text below, or text that became shorter, is no wish of the reader", () => {
  assert.equal(followsAfterScroll(true, { top: 1500, height: 2000 }, scroll(1500, 2600)), true);
  assert.equal(followsAfterScroll(true, { top: 1500, height: 2000 }, scroll(900, 1500)), true);
});

test("a keyboard takes height away, a pinch does not", () => {
  assert.equal(visibleHeight({ viewportHeight: 440, scale: 1, layoutHeight: 740 }), 440);
  assert.equal(visibleHeight({ viewportHeight: 740, scale: 1, layoutHeight: 740 }), null);
  assert.equal(visibleHeight({ viewportHeight: 370, scale: 2, layoutHeight: 740 }), null);
});

test("a line is found again by its letters, nearest to the end it stood at", () => {
  assert.equal(lettersOf("**Zwölf** 12 `x_y`!"), "Zwölf12xy");
  assert.equal(lettersOf("—"), "");
  const letters = lettersOf("line 1 line 2 line 1 line 3");
  assert.equal(findLine(letters, "line1", 20), 0);
  assert.equal(findLine(letters, "line1", 10), 10);
  assert.equal(findLine(letters, "line1", 14), 10);
  assert.equal(findLine(letters, "line4", 0), -1);
});

test("a keyboard makes a page short sooner than a low window does", () => {
  const seen = [[559, 559], [560, 560], [699, 849], [700, 850], [699, 848]].map(([height, tallest]) => isShort({ height, tallest }));
  assert.deepEqual(seen, [true, false, true, false, false]);
});

const A = "00000000-0000-4000-8000-000000000001";
const C = "00000000-0000-4000-8000-000000000002";

test("a place survives the address bar, and nothing else is one", () => {
  assert.deepEqual(parsePlace(formatPlace(A, C)), { agentId: A, conversationId: C });
  assert.deepEqual(parsePlace(formatPlace(A, null)), { agentId: A, conversationId: null });
  for (const hash of ["", "#", "#/x", `#/${A}/../y`, "#/<img>"]) assert.equal(parsePlace(hash), null);
});

test("a name needs something to be seen", () => {
  for (const text of ["", "   ", "\u3000\u200b", "\u200b"]) assert.equal(nameFault(text, 120), "name.blank");
  for (const text of ["a\u0000b", "a\nb", "\u202Eevil"]) assert.equal(nameFault(text, 120), "name.control");
  assert.equal(nameFault("长".repeat(120), 120), null);
  assert.equal(nameFault("长".repeat(121), 120), "name.long");
  assert.equal(nameFault("<img src=x onerror=alert(1)>", 120), null);
});

test("a title is one calm line", () => {
  assert.equal(oneLine("\u202Eevil\u202C a\nb\u0000"), "evil  a b");
  assert.equal(oneLine("\u3000\u200b"), "");
  assert.equal(oneLine(null), "");
  assert.equal(initialOf("👩‍👩‍👧‍👦 family"), "👩‍👩‍👧‍👦");
  assert.equal(initialOf("é"), "É");
});

test("what is sent is well formed and has no control characters", () => {
  assert.equal(sendable("a\r\nb\rc\u001b[31m\td\u0000"), "a\nb\nc[31m\td");
  assert.equal(wellFormed("a\ud83d"), "a\ufffd");
});

test("a reason is cut at a whole character", () => {
  assert.equal(cutToBytes("长".repeat(200), 512).length, 170);
  assert.equal(cutToBytes("short", 512), "short");
});

test("ids are version 4 UUIDs and differ", () => {
  const ids = new Set(Array.from({ length: 50 }, randomId));
  assert.equal(ids.size, 50);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("every active Run that the page knows of is wanted once, and none that is over", () => {
  let state = reduce(initialState(), { type: "view/opened", agentId: "agent", conversationId: "talk" });
  const items = [{ conversation_id: "talk", running_run_id: "run", updated_at: "2026-01-01T00:00:00Z" }, { conversation_id: "other", running_run_id: "run2", updated_at: "2026-01-01T00:00:00Z" }];
  state = reduce(state, { type: "conversations/loaded", agentId: "agent", items });
  const turn = { turn_id: "turn", run_id: "run", state: "running", user_text: "", attachments: [], created_at: "2026-01-01T00:00:00Z" };
  state = reduce(state, { type: "turn/accepted", agentId: "agent", conversationId: "talk", turn });
  assert.deepEqual(wantedRuns(state).map(({ runId, after }) => [runId, after]), [["run", 0], ["run2", 0]]);
  state = reduce(state, { type: "run/event", envelope: completed(7) });
  assert.deepEqual(wantedRuns(state).map((run) => run.runId), ["run2"]);
});
