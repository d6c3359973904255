import assert from "node:assert/strict";
import { test } from "node:test";
import { holdsToolRequest } from "../../js/state/tool_request.js";

const OBJECT = '{"name": "file/read_text", "arguments": {"path": "a.txt"}}';
const TAGS = "<function=file/write>\n<parameter=path> t.txt\n<parameter=content> hello\n</function>";

test("a call in tags is told apart, alone or beside words", () => {
  for (const text of [TAGS, `I write it now.\n${TAGS}\nDone.`, `<tool_call>\n${OBJECT}\n</tool_call>`, "  <function_call>x</function_call>", `\`\`\`js\nlet a;\n\`\`\`\n${TAGS}`]) {
    assert.ok(holdsToolRequest(text), text);
  }
});

test("an object that is the whole answer and has the shape of a call is one", () => {
  for (const text of [OBJECT, ` ${OBJECT}\n`, `\`\`\`json\n${OBJECT}\n\`\`\``, '{"function": "x", "parameters": {}}', `{"type": "function", "function": ${OBJECT}}`]) {
    assert.ok(holdsToolRequest(text), text);
  }
});

test("examples, other objects and ordinary words are no calls", () => {
  const texts = [
    "", "Hello.", "{", "{}", "null", "[1]", '{"name": "Anna", "age": 5}', '{"name": "x", "arguments": [1]}', '{"arguments": {}}', `Here you are:\n\`\`\`json\n${OBJECT}\n\`\`\``,
    `\`\`\`xml\n${TAGS}\n\`\`\``, `~~~\n${TAGS}\n~~~`, "Use the <tool_call> tag.", "`<function=x>` begins it", "<function=>", `<function=${"x".repeat(129)}>`,
  ];
  for (const text of texts) assert.ok(!holdsToolRequest(text), text);
});

test("hostile text takes no time worth speaking of", () => {
  const texts = ["```\n".repeat(4000), "{".repeat(12_000), `<function=${"<function=".repeat(1200)}`, " ".repeat(12_000)];
  assert.deepEqual(texts.map(holdsToolRequest), [false, false, false, false]);
});
