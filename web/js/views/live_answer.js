/**
 * A running Turn: text as it comes, tool calls between. Text is only ever appended, in blocks that end at a line,
 * so that a long answer costs no more per piece than a short one.
 */
import { h, setText } from "../dom/h.js";
import { toolLine } from "./tool_line.js";

/** A block without a line end is closed at the next blank after this many characters. */
const BLOCK_CHARS = 4_000;

export function liveAnswer(app) {
  const thinking = thinkingView(app);
  const flow = h("div", { class: "live-flow" });
  const element = h("div", { class: "live-answer" }, thinking.element, flow);
  let drawn = [];

  function update(run) {
    thinking.update(run.thinking);
    if (!startsAlike(drawn, run.parts)) restart();
    run.parts.forEach((part, index) => {
      drawn[index] ??= add(part, run);
      drawn[index].update(part, run);
    });
  }

  function restart() {
    drawn = [];
    flow.replaceChildren();
  }

  function add(part, run) {
    const view = part.kind === "text" ? textFlow() : toolFlow(app, run.tools[part.callId]);
    flow.append(view.element);
    return { ...view, part };
  }

  return { element, update };
}

/** After a resync, or when a streamed call turned out to be no text, the parts begin differently. */
function startsAlike(drawn, parts) {
  if (drawn.length > parts.length) return false;
  return drawn.every((view, index) => view.part.kind === parts[index].kind && view.grown(parts[index]));
}

function textFlow() {
  const element = h("div", { class: "live-text", dir: "auto" });
  let length = 0;
  let block = null;
  let blockLength = 0;

  function write(text) {
    if (!block) {
      block = h("p", { dir: "auto" });
      block.append("");
      blockLength = 0;
      element.append(block);
    }
    block.firstChild.appendData(text);
    blockLength += text.length;
  }

  function append(text) {
    for (const piece of text.split(/(?<=\n)/)) {
      write(piece.endsWith("\n") ? piece.slice(0, -1) : piece);
      if (piece.endsWith("\n") || (blockLength > BLOCK_CHARS && /\s$/.test(piece))) block = null;
    }
  }

  return {
    element,
    grown: (part) => part.text.length >= length,
    update(part) {
      if (part.text.length === length) return;
      append(part.text.slice(length));
      length = part.text.length;
    },
  };
}

function toolFlow(app, call) {
  const line = toolLine(app, call);
  return {
    element: line.element,
    grown: (part) => part.callId === call.call_id,
    update(part, run) {
      const now = run.tools[part.callId];
      line.update(now, run.stage?.name === "approval" && now.phase !== "finished");
    },
  };
}

/** The model's thinking is shown while it happens, folded, and is no part of the answer. */
function thinkingView({ words: { t } }) {
  const text = h("div", { class: "thinking-text", dir: "auto" });
  text.append("");
  const element = h("details", { class: "thinking", hidden: true }, h("summary", null, t("turn.thinking")), text);
  let length = 0;
  return {
    element,
    update(thinking) {
      if (thinking.length === length) return;
      if (thinking.length < length) {
        setText(text, "");
        text.append("");
        length = 0;
      }
      element.hidden = false;
      text.firstChild.appendData(thinking.slice(length));
      length = thinking.length;
    },
  };
}
