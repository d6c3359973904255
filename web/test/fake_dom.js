/** As much of a document as h.js and markdown.js use, so that what they build can be compared as text. */

class FakeNode {
  constructor() {
    this.children = [];
    this.attributes = new Map();
    this.listeners = [];
  }

  append(...nodes) {
    for (const node of nodes) {
      if (node instanceof FakeNode && node.tag === "#fragment") this.children.push(...node.children);
      else this.children.push(node);
    }
  }

  setAttribute(name, value) {
    if (name.startsWith("on")) throw new Error(`an attribute that runs: ${name}`);
    this.attributes.set(name, String(value));
  }

  removeAttribute(name) {
    this.attributes.delete(name);
  }

  addEventListener(type) {
    this.listeners.push(type);
  }

  get textContent() {
    return this.children.map((child) => (typeof child === "string" ? child : child.textContent)).join("");
  }

  set textContent(text) {
    this.children = [text];
  }

  /** `<a href="…">text</a>`, for comparing; text is escaped so that it cannot be taken for an element. */
  get outline() {
    const inner = this.children.map((child) => (typeof child === "string" ? child.replaceAll("&", "&amp;").replaceAll("<", "&lt;") : child.outline)).join("");
    if (this.tag === "#fragment") return inner;
    const attributes = [...this.attributes].map(([name, value]) => ` ${name}="${value}"`).join("");
    return `<${this.tag}${attributes}>${inner}</${this.tag}>`;
  }

  all(tag) {
    const inside = this.children.flatMap((child) => (typeof child === "string" ? [] : child.all(tag)));
    return this.tag === tag ? [this, ...inside] : inside;
  }
}

export function installFakeDocument() {
  const make = (tag) => Object.assign(new FakeNode(), { tag });
  globalThis.document = {
    createElement: make,
    createElementNS: (_, tag) => make(tag),
    createDocumentFragment: () => make("#fragment"),
  };
}
