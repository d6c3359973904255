/** Which addresses may become links, and the character references that could hide one. */

const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", hellip: "…", mdash: "—", ndash: "–", times: "×", rarr: "→", larr: "←" };

/** @returns {string|null} the normalised address: http or https, with a host, without credentials */
export function safeUrl(text) {
  if (!/^https?:\/\//i.test(text)) return null;
  try {
    const url = new URL(text);
    const web = url.protocol === "http:" || url.protocol === "https:";
    return web && url.hostname && !url.username && !url.password ? url.href : null;
  } catch {
    return null;
  }
}

/** @param {string} entity such as `&amp;` or `&#x3a;` @returns {string|null} */
export function decodeEntity(entity) {
  const name = entity.slice(1, -1);
  if (name[0] !== "#") return Object.hasOwn(NAMED, name) ? NAMED[name] : null;
  const code = /^#x[\da-f]{1,6}$/i.test(name) ? Number.parseInt(name.slice(2), 16) : /^#\d{1,7}$/.test(name) ? Number(name.slice(1)) : -1;
  if (code < 0) return null;
  const valid = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return valid ? String.fromCodePoint(code) : "\ufffd";
}
