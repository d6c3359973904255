/** The only way elements are made: names, properties and text; never markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, unknown>|null} [attributes] `class`, `on<Event>` functions, `data`/`aria` objects,
 *   true → empty attribute, false/null → none
 * @param {...(Node|string|number|null|false|undefined|Array)} children
 */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === "aria") for (const [key, text] of Object.entries(value)) setAria(element, key, text);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

export function setAria(element, key, value) {
  if (value === null || value === undefined) element.removeAttribute(`aria-${key}`);
  else element.setAttribute(`aria-${key}`, String(value));
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** Text that changes: touches the node only when the text is another one. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Boolean attribute or class without reading the page back. */
export function toggle(element, className, on) {
  element.classList.toggle(className, Boolean(on));
}

/** A line drawing of 16 by 16, `paths` in its coordinates; decoration, so hidden from screen readers. */
export function svg(paths, className = "icon") {
  const root = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 16 16", class: className, "aria-hidden": "true", focusable: "false" })) {
    root.setAttribute(name, value);
  }
  for (const d of paths) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", d);
    root.append(path);
  }
  return root;
}
