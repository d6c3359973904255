import assert from "node:assert/strict";
import { test } from "node:test";
import { researchLook } from "../../js/state/research.js";

const PLAIN = { params: {}, elapsedMs: null, bar: null, note: null, fault: null, packages: [], actions: [], busy: false };
const installing = (step, done, total) =>
  researchLook({ state: "installing", outdated: false, progress: { step, packages_done: done, packages_total: total, elapsed_s: 75 } });

test("what is not there can be installed", () => {
  assert.deepEqual(researchLook({ state: "absent", outdated: false }), { ...PLAIN, line: "research.state_absent", actions: ["install"] });
});

test("what belongs to another version says so, and can be renewed or removed", () => {
  const look = researchLook({ state: "absent", outdated: true });
  assert.deepEqual([look.note, look.actions], ["research.outdated", ["install", "remove"]]);
});

test("the bar goes from package to package and on to the end, and knows nothing while another Agent's installation is on", () => {
  const bars = [["waiting", 0, 0], ["downloading", 0, 7], ["downloading", 6, 7], ["checking", 7, 7], ["finishing", 7, 7]].map((at) => installing(...at).bar);
  assert.deepEqual(bars, [
    { value: null, max: 2 }, { value: 0, max: 9 }, { value: 6, max: 9 }, { value: 7, max: 9 }, { value: 8, max: 9 },
  ]);
});

test("an installation shows its step, its time and what it means for the Agent, and can be stopped", () => {
  const look = installing("downloading", 3, 7);
  assert.deepEqual([look.line, look.params, look.elapsedMs], ["research.step_downloading", { done: 3, n: 7 }, 75_000]);
  assert.deepEqual([look.note, look.actions, look.busy], ["research.fenced", ["stop"], true]);
});

test("what is installed shows its packages and can be removed", () => {
  const packages = [{ name: "pypdf", version: "6.14.2" }];
  const look = researchLook({ state: "installed", outdated: false, version: "x", packages, installed_at: "2026-01-01T00:00:00Z" });
  assert.deepEqual(look, { ...PLAIN, line: "research.state_installed", params: { time: "2026-01-01T00:00:00Z" }, packages, actions: ["remove"] });
});

test("a removal offers nothing until it is over", () => {
  const look = researchLook({ state: "removing", outdated: false });
  assert.deepEqual([look.actions, look.busy, look.bar.value], [[], true, null]);
});

test("a failure says why and offers another try; a former environment can be removed", () => {
  const failed = (outdated) => researchLook({ state: "failed", outdated, error: { code: "disk_full", message: "…" } });
  assert.deepEqual([failed(false).fault, failed(false).actions], ["research.fault_disk_full", ["again"]]);
  assert.deepEqual(failed(true).actions, ["again", "remove"]);
});
