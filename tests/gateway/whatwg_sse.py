"""A parser of event streams written from the WHATWG text, byte by byte, without any help from the code under test."""

from dataclasses import dataclass


@dataclass
class Sent:
    id: str
    type: str
    data: str


def parse(stream: bytes) -> list[Sent]:
    text = stream.decode("utf-8")
    text = text.removeprefix("\ufeff")
    lines: list[str] = []
    line = ""
    at = 0
    while at < len(text):
        if text[at] == "\r":
            at += 2 if text[at + 1 : at + 2] == "\n" else 1
        elif text[at] == "\n":
            at += 1
        else:
            line += text[at]
            at += 1
            continue
        lines.append(line)
        line = ""
    return _dispatch(lines)


def _dispatch(lines: list[str]) -> list[Sent]:
    sent: list[Sent] = []
    last_id, kind, data = "", "", ""
    for line in lines:
        if line == "":
            if data:
                sent.append(Sent(last_id, kind or "message", data.removesuffix("\n")))
            kind, data = "", ""
            continue
        if line.startswith(":"):
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            kind = value
        elif field == "data":
            data += value + "\n"
        elif field == "id" and "\0" not in value:
            last_id = value
    return sent
