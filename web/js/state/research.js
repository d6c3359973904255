/** What the section of the research environment shows, as data: words by their keys. */

/**
 * @typedef {"install"|"again"|"stop"|"remove"} ResearchAction
 * @typedef {{line: string, params: object, elapsedMs: number|null, bar: {value: number|null, max: number}|null, note: string|null,
 *   fault: string|null, packages: {name: string, version: string}[], actions: ResearchAction[], busy: boolean}} ResearchLook
 * `line`, `note` and `fault` are keys of the catalogs; `bar.value` is null while nobody knows how far it is
 */

/** @param {object} status as the API gives it @returns {ResearchLook} */
export function researchLook(status) {
  const looks = { installing, installed, removing, failed, absent };
  return { ...QUIET, ...looks[status.state](status) };
}

const QUIET = { params: {}, elapsedMs: null, bar: null, note: null, fault: null, packages: [], actions: [], busy: false };

/** The last two steps are as long as a package. */
function installing({ progress }) {
  const { step, packages_done: done, packages_total: total } = progress;
  const passed = { waiting: null, downloading: done, checking: total, finishing: total + 1 }[step] ?? null;
  return {
    line: `research.step_${step}`,
    params: { done, n: total },
    elapsedMs: progress.elapsed_s * 1000,
    bar: { value: passed, max: total + 2 },
    note: "research.fenced",
    actions: ["stop"],
    busy: true,
  };
}

function installed({ packages, installed_at: time }) {
  return { line: "research.state_installed", params: { time }, packages, actions: ["remove"] };
}

function removing() {
  return { line: "research.state_removing", bar: { value: null, max: 1 }, busy: true };
}

function failed({ error, outdated }) {
  return { line: "research.state_failed", fault: `research.fault_${error.code}`, actions: outdated ? ["again", "remove"] : ["again"] };
}

function absent({ outdated }) {
  if (!outdated) return { line: "research.state_absent", actions: ["install"] };
  return { line: "research.state_absent", note: "research.outdated", actions: ["install", "remove"] };
}
