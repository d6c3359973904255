/**
 * Server-sent events from text chunks, one event per blank line
 * (format: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).
 */

/** @param {(event: {id: string, type: string, data: string}) => void} onEvent */
export function createSseParser(onEvent) {
  let pending = "";
  let event = empty();

  function line(text) {
    if (text === "") return finish();
    if (text.startsWith(":")) return;
    const colon = text.indexOf(":");
    const field = colon < 0 ? text : text.slice(0, colon);
    let value = colon < 0 ? "" : text.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") event.data.push(value);
    else if (field === "event") event.type = value;
    else if (field === "id") event.id = value;
  }

  function finish() {
    const done = event;
    event = empty();
    if (done.data.length) onEvent({ id: done.id, type: done.type || "message", data: done.data.join("\n") });
  }

  /** A carriage return at a chunk's end waits for the next chunk: it may be half of a line end. */
  return function feed(chunk) {
    pending += chunk;
    const held = pending.endsWith("\r") ? "\r" : "";
    const lines = (held ? pending.slice(0, -1) : pending).split(/\r\n|\n|\r/);
    pending = lines.pop() + held;
    for (const text of lines) line(text);
  };
}

function empty() {
  return { id: "", type: "", data: [] };
}
