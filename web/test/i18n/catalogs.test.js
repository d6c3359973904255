import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { en } from "../../js/i18n/en.js";
import { createWords, LOCALES, pickLocale, stopwatch } from "../../js/i18n/index.js";
import { zhCN } from "../../js/i18n/zh-CN.js";

const ROOT = new URL("../../js/", import.meta.url);

function forms(entry) {
  return typeof entry === "string" ? [entry] : Object.values(entry);
}

function blanks(text) {
  return [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();
}

test("both catalogs have the same keys", () => {
  assert.deepEqual(Object.keys(zhCN).sort(), Object.keys(en).sort());
});

test("an entry fills in the same blanks in both languages", () => {
  for (const [key, entry] of Object.entries(en)) {
    for (const text of [...forms(entry), ...forms(zhCN[key])]) assert.deepEqual(blanks(text), blanks(forms(entry)[0]), key);
  }
});

test("each plural has the forms that its language needs", () => {
  for (const [locale, { words }] of Object.entries(LOCALES)) {
    const needed = new Intl.PluralRules(locale).resolvedOptions().pluralCategories.toSorted();
    for (const [key, entry] of Object.entries(words)) if (typeof entry !== "string") assert.deepEqual(Object.keys(entry).toSorted(), needed, key);
  }
});

test("no entry is empty or the same as its key", () => {
  for (const { words } of Object.values(LOCALES)) for (const [key, entry] of Object.entries(words)) for (const text of forms(entry)) assert.ok(text.trim() && text !== key, key);
});

function sources(folder = ROOT) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const url = new URL(entry.isDirectory() ? `${entry.name}/` : entry.name, folder);
    if (entry.isDirectory()) return entry.name === "i18n" ? [] : sources(url);
    return [readFileSync(url, "utf8")];
  });
}

test("every key that the page names is in the catalog", () => {
  const named = sources().flatMap((text) => [...text.matchAll(/\b(?:t|tOr|say)\(\s*"([a-z_]+(?:\.[a-z_]+)+)"/g)].map((match) => match[1]));
  assert.ok(named.length > 150);
  assert.deepEqual(named.filter((key) => !Object.hasOwn(en, key)), []);
});

test("every key in the catalog is named by the page, whole or by its first part", () => {
  const all = sources().join("\n");
  const prefixes = new Set([...all.matchAll(/[`"]([a-z_]+\.(?:[a-z]+_)?)\$\{/g)].map((match) => match[1]));
  const unused = Object.keys(en).filter((key) => !all.includes(`"${key}"`) && !key.startsWith("unit.") && ![...prefixes].some((prefix) => key.startsWith(prefix)));
  assert.deepEqual(unused, []);
});

test("the remembered language wins, then the browser's first known one, then English", () => {
  assert.equal(pickLocale("zh-CN", ["en-US"]), "zh-CN");
  assert.equal(pickLocale("xx", ["fr", "zh-TW", "en"]), "zh-CN");
  assert.equal(pickLocale(null, ["fr"]), "en");
  assert.equal(pickLocale("__proto__", undefined), "en");
});

test("numbers, sizes and times are written as the language writes them", () => {
  const english = createWords("en");
  assert.equal(english.t("effect.read", { n: 1 }), "1 file read");
  assert.equal(english.t("effect.read", { n: 1200 }), "1,200 files read");
  assert.equal(english.bytes(1023), "1,023 B");
  assert.equal(english.bytes(1536), "1.5 KiB");
  assert.equal(english.compact(999), "999");
  assert.equal(english.compact(5123), "5.1k");
  assert.equal(english.seconds(4200), "4.2 s");
  assert.equal(createWords("zh-CN").t("effect.read", { n: 2 }), "读取了 2 个文件");
  assert.equal(stopwatch(3_725_900), "1:02:05");
  assert.equal(stopwatch(-5), "0:00");
});

test("a missing key is an error, and a fallback is none", () => {
  const { t, tOr } = createWords("en");
  assert.throws(() => t("no.such"), /no\.such/);
  assert.equal(tOr("error.no_such", "error.other"), en["error.other"]);
});
