/** Words, numbers and times in the operator's language. */
import { en } from "./en.js";
import { zhCN } from "./zh-CN.js";

export const LOCALES = { en: { name: "English", words: en }, "zh-CN": { name: "简体中文", words: zhCN } };

/** The remembered choice, else the first language of the browser that the page speaks, else English. */
export function pickLocale(remembered, browserLanguages) {
  if (remembered && Object.hasOwn(LOCALES, remembered)) return remembered;
  for (const language of browserLanguages ?? []) {
    if (/^zh\b/i.test(language)) return "zh-CN";
    if (/^en\b/i.test(language)) return "en";
  }
  return "en";
}

/** @param {string} locale one of LOCALES */
export function createWords(locale) {
  const { words } = LOCALES[locale];
  const plural = new Intl.PluralRules(locale);
  const whole = new Intl.NumberFormat(locale);
  const short = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
  const day = new Intl.DateTimeFormat(locale, { dateStyle: "short", timeStyle: "short" });
  const clock = new Intl.DateTimeFormat(locale, { timeStyle: "short" });

  function has(key) {
    return Object.hasOwn(words, key);
  }

  /** The sentence for `key`; `params.n` chooses the plural form; numbers are written as the language writes them. */
  function t(key, params = {}) {
    const entry = words[key];
    if (entry === undefined) throw new Error(`no words for ${key}`);
    const text = typeof entry === "string" ? entry : (entry[plural.select(params.n)] ?? entry.other);
    return text.replace(/\{(\w+)\}/g, (_, name) => written(params[name]));
  }

  function written(value) {
    return typeof value === "number" ? whole.format(value) : String(value ?? "");
  }

  /** The words for `key` when there are any, else those for `fallback`. */
  function tOr(key, fallback, params) {
    return t(has(key) ? key : fallback, params);
  }

  return {
    locale,
    t,
    tOr,
    has,
    number: (value) => whole.format(value),
    /** 5123 → "5.1k": for places where a sentence has to stay short. */
    compact: (value) => (Math.abs(value) < 1000 ? whole.format(value) : t("unit.thousand", { value: short.format(value / 1000) })),
    bytes: (value) => (value < 1024 ? t("unit.bytes", { value }) : t("unit.kib", { value: short.format(value / 1024) })),
    seconds: (ms) => t("unit.seconds", { value: short.format(ms / 1000) }),
    /** 75 000 ms → "1:15" */
    stopwatch: (ms) => stopwatch(ms),
    dayAndTime: (time) => day.format(new Date(time)),
    timeOfDay: (time) => clock.format(new Date(time)),
  };
}

export function stopwatch(ms) {
  const total = Math.max(0, Math.floor(ms / 1000));
  const pad = (value) => String(value).padStart(2, "0");
  const [hours, minutes, seconds] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  return hours ? `${hours}:${pad(minutes)}:${pad(seconds)}` : `${minutes}:${pad(seconds)}`;
}
