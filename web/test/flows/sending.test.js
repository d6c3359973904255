import assert from "node:assert/strict";
import { test } from "node:test";
import { createLists } from "../../js/flows/lists.js";
import { createSending } from "../../js/flows/sending.js";
import { draftOf, restoredDrafts, savedDrafts } from "../../js/state/drafts.js";
import { pageOf } from "../../js/state/turns.js";
import { AGENT, gate, OTHER, pageWith, refusal, serverThat, SESSIONS, storeAt, TALK, turnOf } from "./server.js";

function pageOn(answer, store = storeAt()) {
  const server = serverThat(answer);
  const seen = { followed: 0, focused: 0 };
  const lists = createLists({ store, api: server });
  const navigation = { go: (agentId, conversationId) => store.dispatch({ type: "view/opened", agentId, conversationId }) };
  const sending = createSending({ store, api: server, lists, navigation, follow: () => (seen.followed += 1), focusComposer: () => (seen.focused += 1) });
  const type = (text) => store.dispatch({ type: "draft/typed", key: store.get().view.conversationId ?? `new:${AGENT}`, text });
  const posts = () => server.asked.filter(({ method }) => method === "POST").map(({ body }) => body);
  return { store, sending, seen, type, posts, lists };
}

const accepted = { turn_id: "t1", run_id: "run-t1" };

test("a message that had arrived already keeps its answer when it is sent again", async () => {
  let lost = true;
  const page = pageOn((method, path) => {
    if (method === "POST" && lost) throw refusal("network");
    if (method === "POST") return accepted;
    return path === SESSIONS ? { items: [] } : pageWith([turnOf("t1", { assistant_text: "done" })]);
  });
  page.type("hello");
  await page.sending.send();
  await page.lists.loadPage(AGENT, TALK);
  lost = false;
  await page.sending.send();
  const [first, second] = page.posts();
  assert.equal(first.client_request_id, second.client_request_id);
  assert.deepEqual(pageOf(page.store.get(), TALK).turns.map(({ state, assistant_text }) => [state, assistant_text]), [["completed", "done"]]);
  assert.equal(draftOf(page.store.get(), TALK).text, "");
});

test("after a reload the same text still goes under the same id", () => {
  const page = pageOn(() => {});
  page.type("hello");
  page.store.dispatch({ type: "draft/sending", key: TALK, requestId: "r" });
  const found = restoredDrafts(JSON.parse(JSON.stringify(savedDrafts(page.store.get().drafts))));
  assert.equal(found[TALK].requestId, "r");
  assert.equal(found[TALK].sending, false);
});

test("a text put into the composer leaves what was written there", () => {
  const page = pageOn(() => {});
  page.type("half a thought");
  page.sending.fill("again");
  assert.equal(draftOf(page.store.get(), TALK).text, "half a thought\n\nagain");
  page.sending.fill("again");
  assert.equal(draftOf(page.store.get(), TALK).text, "half a thought\n\nagain");
});

test("one example after the other replaces only the example", () => {
  const page = pageOn(() => {});
  page.sending.fill("one");
  page.sending.fill("two");
  assert.equal(draftOf(page.store.get(), TALK).text, "two");
  page.type("two and mine");
  page.sending.fill("three");
  assert.equal(draftOf(page.store.get(), TALK).text, "two and mine\n\nthree");
});

test("while a message is on its way nothing is put beside it", async () => {
  const way = gate();
  const page = pageOn(async (method, path) => {
    if (method === "POST") await way.opened;
    return method === "POST" ? accepted : path === SESSIONS ? { items: [] } : pageWith([]);
  });
  page.type("hello");
  const sent = page.sending.send();
  page.sending.fill("again");
  assert.equal(draftOf(page.store.get(), TALK).text, "hello");
  way.open();
  await sent;
  assert.equal(draftOf(page.store.get(), TALK).text, "");
  assert.equal(page.posts()[0].message, "hello");
});

test("a model that left the catalog is not asked for; before the catalog is known the choice is kept", async () => {
  const answers = (method, path) => (method === "POST" ? accepted : path === SESSIONS ? { items: [] } : pageWith([]));
  const page = pageOn(answers);
  for (const [items, expected] of [[null, "old"], [[{ model_id: "new", default: true }], undefined], [[{ model_id: "new" }, { model_id: "old" }], "old"]]) {
    if (items) page.store.dispatch({ type: "models/loaded", items });
    page.store.dispatch({ type: "draft/model", key: TALK, modelId: "old" });
    page.type("hello");
    await page.sending.send();
    assert.equal(page.posts().at(-1).model_id, expected);
  }
});

test("an answer that comes after switching belongs to the Conversation that asked", async () => {
  const way = gate();
  const page = pageOn(async (method, path) => {
    if (method === "POST") await way.opened;
    return method === "POST" ? { ...accepted, output: "All is well" } : path === SESSIONS ? { items: [] } : pageWith([]);
  });
  for (const [text, shownWhenBack] of [["/status", "All is well"], ["hello", undefined]]) {
    page.store.dispatch({ type: "view/opened", agentId: AGENT, conversationId: TALK });
    page.type(text);
    const sent = page.sending.send();
    page.store.dispatch({ type: "view/opened", agentId: AGENT, conversationId: OTHER });
    way.open();
    await sent;
    assert.equal(page.store.get().view.results[OTHER], undefined);
    assert.equal(page.store.get().view.results[TALK]?.output, shownWhenBack);
  }
  assert.equal(page.seen.followed, 0);
});
