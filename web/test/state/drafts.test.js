import assert from "node:assert/strict";
import { test } from "node:test";
import { draftKey, draftOf, drafts, emptyDraft, restoredDrafts, savedDrafts } from "../../js/state/drafts.js";
import { withChanges } from "../../js/flows/remembering.js";

const act = (...actions) => actions.reduce((state, action) => drafts(state, { key: "talk", ...action }), {});
const typed = { type: "draft/typed", text: "read notes.md" };

test("each Conversation has its own draft, and a new one lives under its Agent", () => {
  const state = drafts(act(typed), { type: "draft/typed", key: draftKey("agent", null), text: "other" });
  assert.equal(draftOf({ drafts: state }, "talk").text, "read notes.md");
  assert.equal(draftOf({ drafts: state }, "new:agent").text, "other");
  assert.equal(draftOf({ drafts: state }, "unknown"), emptyDraft);
});

test("a sent draft is empty and keeps its model", () => {
  const state = act(typed, { type: "draft/model", modelId: "m" }, { type: "draft/compact", compact: true }, { type: "draft/sending", requestId: "r" }, { type: "draft/sent" });
  assert.deepEqual(state.talk, { ...emptyDraft, modelId: "m" });
});

test("an uncertain send may be tried again under the same id, a changed one may not", () => {
  const refused = act(typed, { type: "draft/sending", requestId: "r" }, { type: "draft/refused", keepRequestId: true, error: { code: "network" } });
  assert.equal(refused.talk.requestId, "r");
  assert.equal(refused.talk.text, "read notes.md");
  assert.equal(drafts(refused, { key: "talk", type: "draft/typed", text: "x" }).talk.requestId, null);
  assert.equal(act(typed, { type: "draft/sending", requestId: "r" }, { type: "draft/refused", error: { code: "too_large" } }).talk.requestId, null);
});

test("a file taken away stays away until its name is written anew", () => {
  const away = act(typed, { type: "draft/file_dismissed", path: "notes.md" });
  assert.deepEqual(drafts(away, { key: "talk", type: "draft/typed", text: "read notes.md!" }).talk.dismissed, ["notes.md"]);
  assert.deepEqual(drafts(away, { key: "talk", type: "draft/typed", text: "read" }).talk.dismissed, []);
});

test("a draft moves with the Conversation that is made for it", () => {
  const state = drafts({ "new:agent": { ...emptyDraft, text: "hi" } }, { type: "draft/moved", from: "new:agent", to: "talk" });
  assert.deepEqual(Object.keys(state), ["talk"]);
});

test("a deleted Conversation takes its draft along", () => {
  assert.deepEqual(drafts(act(typed), { type: "conversation/removed", conversationId: "talk" }), {});
});

test("what was saved is what comes back, with the id of what was on its way", () => {
  const state = act(typed, { type: "draft/sending", requestId: "r" });
  const saved = JSON.parse(JSON.stringify(savedDrafts({ ...state, empty: emptyDraft })));
  assert.deepEqual(Object.keys(saved), ["talk"]);
  assert.deepEqual(restoredDrafts(saved).talk, { ...emptyDraft, text: "read notes.md", requestId: "r" });
});

test("whatever the browser's storage holds, drafts come of it", () => {
  for (const saved of [null, 5, "x", [], { a: null }, { a: { text: 5 } }]) assert.deepEqual(restoredDrafts(saved), {});
  assert.deepEqual(restoredDrafts({ a: { text: "t", modelId: 5, dismissed: [1, "x"], compact: "yes" } }).a, { ...emptyDraft, text: "t", dismissed: ["x"] });
});

test("a tab writes only what it changed itself", () => {
  const mine = { a: { text: "mine" }, gone: { text: "x" } };
  const stored = { a: { text: "old" }, b: { text: "other tab" }, gone: { text: "x" } };
  assert.deepEqual(withChanges(stored, { a: { text: "old" }, gone: mine.gone }, { a: mine.a }), { a: mine.a, b: { text: "other tab" } });
});
