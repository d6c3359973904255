import assert from "node:assert/strict";
import { test } from "node:test";
import { createStore } from "../js/store.js";

const reduce = (state, action) => (action.type === "set" ? { ...state, ...action.change } : state);

test("a watcher hears at once and then only of other values", () => {
  const store = createStore(reduce, { a: 1, b: 1 });
  const heard = [];
  store.watch((state) => state.a, (a) => heard.push(a));
  store.dispatch({ type: "set", change: { b: 2 } });
  store.dispatch({ type: "set", change: { a: 2 } });
  store.dispatch({ type: "unknown" });
  assert.deepEqual(heard, [1, 2]);
});

test("a selection of parts is compared part by part", () => {
  const store = createStore(reduce, { a: 1, b: 1, c: 1 });
  let times = 0;
  store.watch(({ a, b }) => [a, b], () => (times += 1));
  store.dispatch({ type: "set", change: { c: 2 } });
  store.dispatch({ type: "set", change: { b: 2 } });
  assert.equal(times, 2);
});

test("an aborted signal ends a watcher", () => {
  const store = createStore(reduce, { a: 1 });
  const life = new AbortController();
  let times = 0;
  store.watch((state) => state.a, () => (times += 1), { signal: life.signal });
  life.abort();
  store.dispatch({ type: "set", change: { a: 2 } });
  assert.equal(times, 1);
});

test("a batch is told once, when it is done, even when it fails", () => {
  const store = createStore(reduce, { a: 1 });
  const heard = [];
  store.watch((state) => state.a, (a) => heard.push(a));
  store.batch(() => [2, 3, 4].forEach((a) => store.dispatch({ type: "set", change: { a } })));
  assert.throws(() =>
    store.batch(() => {
      store.dispatch({ type: "set", change: { a: 5 } });
      throw new Error("midway");
    }),
  );
  assert.deepEqual(heard, [1, 4, 5]);
});
