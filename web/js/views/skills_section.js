/** The Skills of an Agent: what is installed, add one from a file or by dropping it, choose the version in use, remove. */
import { confirmDialog } from "../dom/dialog.js";
import { h, setText, toggle } from "../dom/h.js";
import { icon } from "../dom/icons.js";
import { keyedList } from "../dom/keyed_list.js";
import { oneLine } from "../dom/plain_text.js";
import { skillsOf } from "../flows/skills.js";
import { errorDetail, errorWords } from "./server_words.js";

export function skillsSection(app, agent, changed) {
  const { t } = app.words;
  const skills = skillsOf(app.api, agent.agent_id);
  const told = h("p", { class: "skill-told", role: "status" });
  const fault = h("p", { class: "field-fault", role: "alert" });
  const rows = h("ul", { class: "skills" });
  const none = h("p", { class: "skill-none", hidden: true }, t("skills.none"));
  const chooser = h("input", { type: "file", accept: ".zip,application/zip", class: "skill-file", hidden: true, aria: { label: t("skills.add") } });
  const add = h("button", { type: "button", class: "button", onClick: () => chooser.click() }, icon("plus"), t("skills.add"));
  const place = h("div", { class: "skill-place" }, add, h("span", { class: "skill-hint" }, t("skills.drop")), chooser);
  const element = h("div", { class: "skills-part" }, h("p", { class: "skill-note" }, t("skills.note")), rows, none, place, told, fault);
  const list = keyedList(rows, { key: (row) => row.skill_id, create: (row) => skillRow(app, row, { use, remove }) });
  let busy = false;
  let unread = false;

  /** One change at a time; how it went stands below the list. */
  async function attempt(doing, change) {
    if (busy) return;
    busy = true;
    add.disabled = true;
    setText(fault, "");
    setText(told, doing);
    try {
      setText(told, await change());
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      setText(told, "");
      setText(fault, refusalWords(app.words, error));
    } finally {
      busy = false;
      add.disabled = false;
      changed();
    }
  }

  function install(file) {
    return attempt(t("skills.installing", { file: oneLine(file.name) }), async () => t("skills.installed", named(await skills.install(file))));
  }

  function use(skill, active) {
    return attempt("", async () => t(active ? "skills.used" : "skills.off", named(await skills.setActive(skill.skill_id, active))));
  }

  async function remove(skill) {
    const sure = await confirmDialog({
      title: t("skills.remove_title", named(skill)),
      body: [t("skills.remove_body")],
      confirm: t("skills.remove"),
      cancel: t("action.keep"),
      danger: true,
    });
    if (!sure) return;
    await attempt("", async () => {
      await skills.remove(skill.skill_id);
      return t("skills.removed", named(skill));
    });
    add.focus({ preventScroll: true });
  }

  async function refresh() {
    try {
      const items = await skills.list();
      list.show(items);
      none.hidden = items.length > 0;
      if (unread) setText(fault, "");
      unread = false;
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      setText(fault, refusalWords(app.words, error));
      unread = true;
    }
    return false;
  }

  chooser.addEventListener("change", () => {
    const file = chooser.files[0];
    chooser.value = "";
    if (file) install(file);
  });
  takeDrops(element, install, () => setText(fault, t("skills.one_file")));
  return { title: t("skills.title"), element, refresh };
}

/** A file that is dropped here is installed; anywhere else the browser would leave the page for it. */
function takeDrops(element, install, refuse) {
  let inside = 0;
  const mark = (step) => {
    inside = Math.max(0, inside + step);
    toggle(element, "dropping", inside > 0);
  };
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  element.addEventListener("dragenter", (event) => holdsFiles(event) && mark(1));
  element.addEventListener("dragleave", (event) => holdsFiles(event) && mark(-1));
  element.addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
  element.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    mark(-inside);
    const { files } = event.dataTransfer;
    if (files.length === 1) install(files[0]);
    else refuse();
  });
}

function skillRow({ words }, first, { use, remove }) {
  const { t } = words;
  let skill = first;
  const name = h("bdi", { class: "skill-name" });
  const version = h("bdi", { class: "skill-version" });
  const mark = h("span", { class: "skill-mark" }, icon("check"), t("skills.in_use"));
  const description = h("p", { class: "skill-description", dir: "auto" });
  const facts = h("p", { class: "skill-facts" });
  const switcher = h("button", { type: "button", class: "button small", onClick: () => use(skill, !skill.active) });
  const gone = h("button", { type: "button", class: "button small", onClick: () => remove(skill) }, t("skills.remove_more"));
  const element = h("li", { class: "skill" }, h("p", { class: "skill-head" }, name, version, mark), description, facts, h("div", { class: "skill-actions" }, switcher, gone));

  function update(row) {
    skill = row;
    setText(name, oneLine(row.name));
    setText(version, oneLine(row.version));
    mark.hidden = !row.active;
    setText(description, oneLine(row.description));
    setText(facts, factsOf(words, row));
    setText(switcher, t(row.active ? "skills.switch_off" : "skills.use"));
    switcher.setAttribute("aria-label", t(row.active ? "skills.switch_off_of" : "skills.use_of", named(row)));
    gone.setAttribute("aria-label", t("skills.remove_of", named(row)));
  }
  return { element, update };
}

function factsOf({ t, bytes }, { entries, bytes: size, scripts }) {
  const files = t("skills.files", { n: entries, size: bytes(size) });
  return scripts.length ? t("skills.with_scripts", { files, scripts: scripts.map(oneLine).join(", ") }) : t("skills.no_scripts", { files });
}

function named({ name, version }) {
  return { name: oneLine(name), version: oneLine(version) };
}

/** Why an archive was not taken, with the file and line that it is about; else what any refusal says. */
export function refusalWords(words, error) {
  const { t, has } = words;
  const { reason, entry, line } = error.details ?? {};
  if (error.code !== "invalid_request" || !reason || !has(`skill_refused.${reason}`)) {
    return [errorWords(words, error.code), errorDetail(words, error)].filter(Boolean).join(" ");
  }
  const why = t(`skill_refused.${reason}`);
  if (line) return t("skills.refused_at_line", { why, file: oneLine(entry), line: String(line) });
  return entry ? t("skills.refused_in", { why, file: oneLine(entry) }) : why;
}
