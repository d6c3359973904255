import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const ROOT = new URL("../", import.meta.url);
const MAX_LINES = 400;

function files(folder, kind) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const url = new URL(entry.isDirectory() ? `${entry.name}/` : entry.name, folder);
    if (entry.isDirectory()) return files(url, kind);
    return entry.name.endsWith(kind) ? [{ name: url.pathname.slice(ROOT.pathname.length), text: readFileSync(url, "utf8") }] : [];
  });
}

const scripts = files(new URL("js/", ROOT), ".js");
const pages = files(ROOT, ".html");
const styles = files(new URL("css/", ROOT), ".css");

for (const name of ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc", "crypto.randomUUID"]) {
  test(`no script uses ${name}`, () => {
    assert.deepEqual(scripts.filter(({ text }) => text.includes(name)).map((file) => file.name), []);
  });
}

test("state and reducers know no document", () => {
  const pure = scripts.filter(({ name }) => name.startsWith("js/state/"));
  assert.ok(pure.length > 8);
  assert.deepEqual(pure.filter(({ text }) => /\b(?:document|window|fetch|localStorage)\b[.(]/.test(text)).map((file) => file.name), []);
});

test("pages have no inline script, no inline style and nothing from elsewhere", () => {
  for (const { name, text } of pages) {
    assert.doesNotMatch(text, /<script(?![^>]*\bsrc="\/)[^>]*>/, name);
    assert.doesNotMatch(text, /\sstyle=|<style|\son\w+=|https?:/, name);
  }
});

test("styles load nothing", () => {
  for (const { name, text } of styles) assert.doesNotMatch(text, /@import|url\(/, name);
});

test("imports are relative and end in .js", () => {
  for (const { name, text } of scripts) for (const [, path] of text.matchAll(/from "([^"]+)"/g)) assert.match(path, /^\.\.?\/.*\.js$/, name);
});

test("no file is longer than one can read at a sitting", () => {
  for (const { name, text } of [...scripts, ...styles]) assert.ok(text.split("\n").length <= MAX_LINES + 1, name);
});
