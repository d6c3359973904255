/** What the running Turn waits for, since when, how long that usually takes; and Stop. */
import { isFocusLost, rest } from "../dom/focus.js";
import { h, setText, toggle } from "../dom/h.js";
import { runOf } from "../state/run_events.js";
import { activeTurn, isActive, pageOf } from "../state/turns.js";
import { shownPermissions } from "./approval_card.js";

const TICK_MS = 1_000;
/** Said to screen readers, each once in a Run: what may take long, and when it is over. */
const SPOKEN = ["model_queue", "cancelled_prompt", "loading_model", "summarising", "evaluating_prompt", "thinking", "answering"];

/** @returns {{stage: string, since: string|null, expectedS: number|null}} */
export function stageOf(turn, run, waits) {
  if (waits) return { stage: "approval", since: run.stage?.since ?? null, expectedS: null };
  if (run.stage) return { stage: run.stage.name, since: run.stage.since, expectedS: run.stage.expectedS };
  return { stage: turn.state === "preparing" ? "preparing" : "running", since: null, expectedS: null };
}

export function stageLine(app, root) {
  const { store, running, words } = app;
  const { t } = words;
  const dot = h("span", { class: "dot" });
  const text = h("span", { class: "stage-text" });
  const clock = h("span", { class: "stage-clock", role: "timer" });
  const stop = h("button", { type: "button", class: "quiet-button stop", onClick: () => ask() }, t("run.stop"));
  const reconnect = h("button", { type: "button", class: "button small", onClick: running.reconnect }, t("stream.reconnect"));
  root.append(dot, text, clock, h("span", { class: "spring" }), reconnect, stop);
  let shown = null;
  let timer = 0;
  let spoken = { runId: null, stages: [] };

  async function ask() {
    try {
      await app.stopRun();
    } finally {
      if (isFocusLost()) rest();
    }
  }

  function tick() {
    if (shown) setText(clock, words.stopwatch(app.api.serverNow() - Date.parse(shown.since ?? shown.turn.created_at)));
  }

  function speak(runId, stage) {
    if (spoken.runId !== runId) spoken = { runId, stages: [] };
    if (!SPOKEN.includes(stage) || spoken.stages.includes(stage)) return;
    spoken.stages.push(stage);
    app.say(`stage.${stage}`);
  }

  function showStopped(stopping) {
    setText(text, t(stopping === "safe" ? "run.safely_stopped" : "run.stopping"));
    toggle(dot, "waits", false);
    toggle(dot, "lost", false);
    reconnect.hidden = true;
  }

  store.watch(
    (state) => {
      const turn = activeTurn(pageOf(state, state.view.conversationId));
      return [turn, turn && runOf(state, turn.run_id), state.gateway.stream, turn && state.view.stopping[turn.run_id], shownPermissions(state).length, turn ? null : stoppedHere(state)];
    },
    ([turn, run, stream, stopping, waits, stopped]) => {
      root.hidden = !turn && !stopped;
      clock.hidden = stop.hidden = !turn;
      if (stopped) showStopped(stopped);
      clearInterval(timer);
      shown = turn ? { turn, ...stageOf(turn, run, waits > 0) } : null;
      if (!shown) return;
      setText(text, stageWords(app, shown, run, stream, stopping));
      toggle(dot, "waits", shown.stage === "approval");
      toggle(dot, "lost", isCut(stream) || run.storageFull);
      reconnect.hidden = !isCut(stream);
      stop.disabled = stopping === "asked";
      if (!stopping) speak(turn.run_id, shown.stage);
      tick();
      timer = setInterval(tick, TICK_MS);
    },
  );
}

/** A Run that was stopped here has an end before nothing of it goes on: `asked` until then, `safe` after it. */
function stoppedHere({ pages, view }) {
  const turn = pageOf({ pages }, view.conversationId).turns.at(-1);
  return turn && !isActive(turn) ? view.stopping[turn.run_id] : null;
}

/** Only the operator's button opens the connection again. */
function isCut(stream) {
  return stream === "lost" || stream === "crowded";
}

function stageWords({ words: { t, tOr } }, { stage, expectedS }, run, stream, stopping) {
  if (stopping === "asked") return t("run.stopping");
  if (run.storageFull) return t("run.storage_full");
  if (stream === "crowded") return t("error.subscriber_limit");
  if (stream === "lost") return t("stream.lost");
  if (stream === "retrying") return t("stream.retrying");
  const name = tOr(`stage.${stage}`, "stage.other");
  return expectedS >= 1 ? t("stage.expected", { stage: name, seconds: Math.round(expectedS) }) : name;
}
