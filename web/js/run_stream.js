/**
 * The tab's one connection for events of running Runs. It is open only while somebody looks and a Run is active,
 * takes up each Run after its last seen seq, and gives up after three failures in a row until asked again.
 */
import { createSseParser } from "./sse_parser.js";

export const MAX_TRIES = 3;
const BACKOFF_MS = [500, 2_000, 5_000];
/** The server writes a comment every 15 s; a connection silent for longer than two of them is dead. */
const SILENCE_MS = 40_000;
/** A connection that lasted this long, or brought an event, was no failure when it ends. */
const SETTLED_MS = 10_000;

/** @typedef {{agentId: string, runId: string, after: number}} WantedRun */

/**
 * @param {{
 *   fetch: typeof fetch,
 *   timers: {setTimeout: Function, clearTimeout: Function},
 *   wanted: () => WantedRun[],
 *   onEvent: (envelope: object) => void,
 *   onControl: (frame: object) => void,
 *   onStatus: (status: "idle"|"live"|"retrying"|"lost"|"crowded") => void,
 *   onSignedOut: () => void,
 * }} wiring `wanted` is asked at each opening, so that every Run resumes exactly where the page stands.
 */
export function createRunStream(wiring) {
  const { timers, wanted, onStatus } = wiring;
  let connection = null;
  let openRuns = "";
  let tries = 0;
  let retryTimer = 0;
  let visible = true;

  /** Opens, reopens or closes so that the connection carries exactly the wanted Runs. */
  function refresh() {
    const runs = visible ? wanted() : [];
    const key = runs.map((run) => run.runId).sort().join(" ");
    if (key === openRuns && (connection || retryTimer || tries >= MAX_TRIES)) return;
    if (key !== openRuns) tries = 0;
    close();
    openRuns = key;
    if (!runs.length) return onStatus("idle");
    open(runs);
  }

  function open(runs) {
    const mine = (connection = new AbortController());
    const settled = () => {
      tries = 0;
    };
    carry(runs, mine, wiring, { opened: () => onStatus("live"), settled }).then(
      () => mine === connection && ended(),
      (error) => mine === connection && failed(error),
    );
  }

  /** The server closed in order: the Runs are over, or it asked for a new subscription. */
  function ended() {
    connection = null;
    if (wanted().length) return failed(null);
    openRuns = "";
    onStatus("idle");
  }

  function failed(error) {
    connection = null;
    if (error?.signedOut) return wiring.onSignedOut();
    if (tries >= MAX_TRIES) return onStatus(error?.code === "subscriber_limit" ? "crowded" : "lost");
    onStatus("retrying");
    retryTimer = timers.setTimeout(() => {
      retryTimer = 0;
      tries += 1;
      const runs = wanted();
      if (runs.length) open(runs);
      else refresh();
    }, BACKOFF_MS[tries]);
  }

  function close() {
    timers.clearTimeout(retryTimer);
    retryTimer = 0;
    connection?.abort();
    connection = null;
    openRuns = "";
  }

  function reopen() {
    close();
    tries = 0;
    refresh();
  }

  /** A Run must be read from another place: a new connection, which counts as a try, so that it cannot go on for ever. */
  function resync() {
    if (!connection) return;
    connection.abort();
    failed(null);
  }

  return {
    refresh,
    resync,
    /** The operator's button after the third failure, a woken tab, or a Run that must be read from its start. */
    reopen,
    setVisible(value) {
      if (value === visible) return;
      visible = value;
      tries = 0;
      refresh();
    },
  };
}

/** One connection from opening to its end; rejects when it broke. */
async function carry(runs, controller, wiring, { opened, settled }) {
  const { fetch, timers, onEvent, onControl } = wiring;
  let silence = 0;
  let settling = 0;
  const heard = () => {
    timers.clearTimeout(silence);
    silence = timers.setTimeout(() => controller.abort(), SILENCE_MS);
  };
  heard();
  try {
    const response = await fetch(streamUrl(runs), {
      headers: { Accept: "text/event-stream" },
      credentials: "same-origin",
      cache: "no-store",
      signal: controller.signal,
    });
    if (!response.ok) throw Object.assign(new Error(`stream ${response.status}`), { signedOut: response.status === 401, code: await codeOf(response) });
    opened();
    settling = timers.setTimeout(settled, SETTLED_MS);
    const feed = createSseParser((event) => {
      if (controller.signal.aborted) return;
      const data = JSON.parse(event.data);
      if (event.type === "control") onControl(data);
      else {
        settled();
        onEvent(data);
      }
    });
    await pump(response.body.getReader(), feed, heard);
  } finally {
    timers.clearTimeout(silence);
    timers.clearTimeout(settling);
  }
}

async function codeOf(response) {
  try {
    return (await response.json()).error.code;
  } catch {
    return null;
  }
}

async function pump(reader, feed, heard) {
  const decoder = new TextDecoder();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    feed(decoder.decode(value, { stream: true }));
  }
}

export function streamUrl(runs) {
  const query = runs.map((run) => `run=${encodeURIComponent(`${run.agentId}/${run.runId}@${run.after}`)}`);
  return `/api/events?${query.join("&")}`;
}
