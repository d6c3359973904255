import assert from "node:assert/strict";
import { before, test } from "node:test";
import { renderMarkdown } from "../../js/dom/markdown.js";
import { installFakeDocument } from "../fake_dom.js";

const WORDS = { copyLabel: "Copy", tableLabel: "Table", codeLabel: "Code", onCopy() {} };

before(installFakeDocument);

function render(text) {
  return renderMarkdown(text, WORDS);
}

/** Without what only serves reading direction and keyboard. */
function outline(text) {
  return render(text).outline.replaceAll(/ (?:dir|tabindex|role|aria-label|scope|target|rel|type|class)="[^"]*"/g, "");
}

const FAITHFUL = [
  ["a heading", "# One\n\n### Three ###", "<h3>One</h3><h5>Three</h5>"],
  ["an underlined heading", "One\n===\nTwo\n---", "<h3>One</h3><h4>Two</h4>"],
  ["paragraphs", "a\nb\n\nc", "<p>a\nb</p><p>c</p>"],
  ["hard line breaks", "a  \nb\\\nc", "<p>a<br></br>b<br></br>c</p>"],
  ["emphasis", "*a* **b** ***c*** _d_ __e__ ~~f~~", "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <em>d</em> <strong>e</strong> <del>f</del></p>"],
  ["emphasis inside emphasis", "*a **b** c*", "<p><em>a <strong>b</strong> c</em></p>"],
  ["underscores inside a word", "snake_case_name", "<p>snake_case_name</p>"],
  ["emphasis beside Chinese punctuation", "这是**「重点」**的", "<p>这是<strong>「重点」</strong>的</p>"],
  ["lone stars", "2 * 3 * 4 and *", "<p>2 * 3 * 4 and *</p>"],
  ["escapes", "\\*a\\* \\# \\q", "<p>*a* # \\q</p>"],
  ["character references", "&amp; &lt; &#65; &#x42; &nope;", "<p>&amp; &lt; A B &amp;nope;</p>"],
  ["inline code", "`a < b` and `` c`d `` and `open", "<p><code>a &lt; b</code> and <code>c`d</code> and `open</p>"],
  ["a rule", "a\n\n* * *\n\nb", "<p>a</p><hr></hr><p>b</p>"],
  ["a tight list", "- a\n- b", "<ul><li>a</li><li>b</li></ul>"],
  ["a loose list", "- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"],
  ["nested lists", "1. a\n   - b\n     - c\n2. d", "<ol><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ol>"],
  ["a list that starts at seven", "7. a\n8. b", '<ol start="7"><li>a</li><li>b</li></ol>'],
  ["lists of two kinds", "- a\n* b", "<ul><li>a</li></ul><ul><li>b</li></ul>"],
  ["a year at the start of a line", "text\n1986. A great year", "<p>text\n1986. A great year</p>"],
  ["a quote", "> a\nlazy\n> > b", "<blockquote><p>a\nlazy</p><blockquote><p>b</p></blockquote></blockquote>"],
  ["a quote with a list", "> - a\n> - b\n\nc", "<blockquote><ul><li>a</li><li>b</li></ul></blockquote><p>c</p>"],
  ["code in an item", "- a\n\n  ```js\n  x\n\n  y\n  ```", "<ul><li><p>a</p>CODE:js:x\n\ny</li></ul>"],
  ["fenced code", "```python\na\n  b\n```\nc", "CODE:python:a\n  b<p>c</p>"],
  ["a fence inside a longer fence", "````md\n```js\nx\n```\n````", "CODE:md:```js\nx\n```"],
  ["tildes", "~~~\n```\n~~~", "CODE::```"],
  ["tabs in code", "```sh\n\techo\n \tx\n```", "CODE:sh:\techo\n \tx"],
  ["tabs that indent", "-\ta\n\t- b\n\n\tc", "<ul><li><p>a</p><ul><li>b</li></ul><p>c</p></li></ul>"],
  ["code indented by a tab", "\ta\n\t\tb", "CODE::a\n\tb"],
  ["an unclosed fence", "```\na\nb", "CODE::a\nb"],
  ["indented code", "    a\n      b\n\nc", "CODE::a\n  b<p>c</p>"],
  ["a link", "[a *b*](https://x.y/z \"t\")", '<p><a href="https://x.y/z">a <em>b</em></a></p>'],
  ["a link with parentheses", "[a](https://x.y/(z))", '<p><a href="https://x.y/(z)">a</a></p>'],
  ["a link in angle brackets", "<https://x.y/>", '<p><a href="https://x.y/">https://x.y/</a></p>'],
  ["a bare link at a sentence's end", "see https://x.y/z.", '<p>see <a href="https://x.y/z">https://x.y/z</a>.</p>'],
  ["brackets that are no link", "[a] [b] (c)", "<p>[a] [b] (c)</p>"],
  ["a table", "| a | b |\n|:--|--:|\n| 1 | **2** |\n| 3 \\| 4 |", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><strong>2</strong></td></tr><tr><td>3 | 4</td><td></td></tr></tbody></table>"],
  ["pipes without a delimiter row", "a | b\nc | d", "<p>a | b\nc | d</p>"],
];

function withCode(html) {
  return html
    .replaceAll(/<div><div>(?:<span>([^<]*)<\/span>)?<button>Copy<\/button><\/div><pre><code>([\s\S]*?)<\/code><\/pre><\/div>/g, "CODE:$1:$2")
    .replaceAll(/<div>(<table>[\s\S]*?<\/table>)<\/div>/g, "$1");
}

for (const [name, text, expected] of FAITHFUL) {
  test(`${name} is drawn as written`, () => {
    assert.equal(withCode(outline(text)), expected.replaceAll("undefined", ""));
  });
}

const NO_LINK = [
  "[a](javascript:alert(1))",
  "[a](JaVaScRiPt&#58;alert(1))",
  "[a](java\tscript:alert(1))",
  "[a](data:text/html,<script>alert(1)</script>)",
  "[a](vbscript:x)",
  "[a](//evil.example/x)",
  "[a](/relative)",
  "[a](http://user:pw@evil.example/)",
  "[a](http://user@evil.example/)",
  "[a](https:/\\evil)",
  "[a](https://)",
  "<javascript:alert(1)>",
  "[a][b]\n\n[b]: javascript:alert(1)",
];

for (const text of NO_LINK) {
  test(`no link is made of ${JSON.stringify(text)}`, () => {
    assert.deepEqual(render(text).all("a"), []);
  });
}

test("only known elements and attributes are ever made", () => {
  const hostile = [
    "<img src=x onerror=alert(1)> <script>alert(1)</script>",
    "![x](https://evil.example/p.png?q=SECRET)",
    "```\"><img src=x onerror=alert(1)>\nx\n```",
    "| <svg onload=alert(1)> | b |\n|--|--|\n| <iframe> | `<b>` |",
    "[<img src=x>](https://x.y)",
    "\u202Eevil\u202C ‮abc",
    "broken \ud83d surrogate \udc00 pair",
    "\u0000 nul",
  ].join("\n\n");
  const drawn = render(hostile);
  const allowed = new Set(["a", "blockquote", "br", "button", "code", "del", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"]);
  const attributes = new Set(["aria-label", "class", "dir", "href", "rel", "role", "scope", "start", "tabindex", "target", "type"]);
  const visit = (node) => {
    if (typeof node === "string") return;
    if (node.tag !== "#fragment") assert.ok(allowed.has(node.tag), node.tag);
    for (const name of node.attributes.keys()) assert.ok(attributes.has(name), name);
    node.children.forEach(visit);
  };
  visit(drawn);
  assert.deepEqual(drawn.all("a").map((link) => link.attributes.get("href")), ["https://evil.example/p.png?q=SECRET", "https://x.y/"]);
  assert.ok(drawn.textContent.includes("<script>alert(1)</script>"));
});

test("every link opens elsewhere and tells nothing of this page", () => {
  const [link] = render("[a](https://x.y)").all("a");
  assert.equal(link.attributes.get("rel"), "noopener noreferrer");
  assert.equal(link.attributes.get("target"), "_blank");
});

test("a fence's language is a bounded word without markup", () => {
  const [label] = render("```\"><img/src=x>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nx\n```").all("span");
  assert.match(label.textContent, /^[\w+#.-]{1,24}$/);
});

const HOSTILE = {
  "5000 opening brackets": "[".repeat(5000),
  "5000 unfinished links": "[a](".repeat(5000),
  "200 nested quotes": `${">".repeat(200)} x`,
  "20000 nested quotes": `${"> ".repeat(20000)}x`,
  "2000 nested items": Array.from({ length: 2000 }, (_, depth) => `${"  ".repeat(depth)}- x`).join("\n"),
  "alternating delimiters": `${"_*".repeat(20000)}a${"*_".repeat(20000)}`,
  "strong in strong": `${"**a ".repeat(10000)}${" b**".repeat(10000)}`,
  "backtick runs of every length": Array.from({ length: 600 }, (_, length) => "`".repeat(length + 1)).join(" "),
  "a table of 20000 rows": `|a|b|\n|-|-|\n${"|x|y|\n".repeat(20000)}`,
  "a row of 30000 cells": `${"|a".repeat(30000)}\n${"|-".repeat(30000)}`,
  "unfinished entities": "&#1".repeat(30000),
  "unfinished addresses": "<http://".repeat(20000),
  "closing parentheses behind a link": `https://a.b/${")".repeat(20000)}`,
  "lazy lines": `- a\n${"b\n".repeat(20000)}`,
  "200 kB of words": "word and more ".repeat(15000),
  "blank lines in an item": `- a\n${"\n  b\n".repeat(5000)}`,
};

/** Letters and digits survive whatever stands around them. */
function letters(text) {
  return text.replaceAll(/[^\p{L}\p{N}]/gu, "");
}

for (const [name, text] of Object.entries(HOSTILE)) {
  test(`${name}: drawn at once, and no letter is lost`, () => {
    const drawn = letters(render(text).textContent).replaceAll("Copy", "");
    assert.equal(drawn.length, letters(text).length);
  });
}

test("nesting is bounded, the text is not lost", () => {
  const drawn = render(`${"> ".repeat(40)}deep`);
  assert.equal(drawn.all("blockquote").length, 12);
  assert.ok(drawn.textContent.endsWith("deep"));
  const strong = render(`${"*a **b ".repeat(60)}x${"** *".repeat(60)}`);
  assert.ok(strong.textContent.includes("x"));
});
