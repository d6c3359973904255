import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../js/api.js";
import { skillsOf } from "../../js/flows/skills.js";
import { createWords } from "../../js/i18n/index.js";
import { refusalWords } from "../../js/views/skills_section.js";
import { AGENT, serverThat } from "./server.js";

const SKILLS = `/api/agents/${AGENT}/skills`;
const fileOf = (size, read = async () => new ArrayBuffer(size)) => ({ name: "greet.zip", size, arrayBuffer: read });

test("an archive of two mebibytes is sent and a larger one is not", async () => {
  const server = serverThat(() => ({ name: "greet" }));
  assert.deepEqual(await skillsOf(server, AGENT).install(fileOf(2 * 1024 * 1024)), { name: "greet" });
  await assert.rejects(skillsOf(server, AGENT).install(fileOf(2 * 1024 * 1024 + 1)), { details: { reason: "archive_too_large" } });
  assert.deepEqual(server.asked.map(({ method, path }) => [method, path]), [["POST", SKILLS]]);
});

test("a file that cannot be read is told as such", async () => {
  const server = serverThat(() => assert.fail("nothing is sent"));
  const gone = fileOf(10, async () => {
    throw new DOMException("gone", "NotFoundError");
  });
  await assert.rejects(skillsOf(server, AGENT).install(gone), { code: "invalid_request", details: { reason: "unreadable" } });
});

test("a version is switched and removed under its own id", async () => {
  const server = serverThat((method) => (method === "GET" ? { items: [1] } : null));
  const skills = skillsOf(server, AGENT);
  await skills.setActive("a b", false);
  await skills.remove("a b");
  assert.deepEqual(await skills.list(), [1]);
  assert.deepEqual(server.asked, [
    { method: "PATCH", path: `${SKILLS}/a%20b`, body: { active: false } },
    { method: "DELETE", path: `${SKILLS}/a%20b`, body: undefined },
    { method: "GET", path: SKILLS, body: undefined },
  ]);
});

test("a refusal is said in words, with the file and the line that it is about", () => {
  const words = createWords("en");
  const said = (details, code = "invalid_request") => refusalWords(words, new ApiError({ code, details }));
  assert.equal(said({ reason: "not_zip" }), "This is no zip archive.");
  assert.equal(said({ reason: "link", entry: "a/b\u202e" }), "The archive holds a link; only files and folders are taken. (a/b)");
  assert.match(said({ reason: "front_matter", entry: "SKILL.md", line: 3 }), /\(SKILL\.md, line 3\)$/);
  assert.equal(said({ reason: "new to this page" }), said({}));
  assert.equal(said({ limit_bytes: 1 }, "too_large"), words.t("error.too_large"));
});
