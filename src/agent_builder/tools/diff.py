"""A unified diff of two texts, exact and bounded. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from agent_builder.protocol.limits import DIFF_EQUAL_PAIRS, DIFF_LINE_BYTES, DIFF_PAIRS
from agent_builder.tools.visible_text import bare, spelled, visible

_CONTEXT = 3
_NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines a..b of the old text become lines c..d of the new one, from 0."""

    kind: str
    a: int
    b: int
    c: int
    d: int


def unified_diff(path: str, old: str | None, new: str) -> str:
    """`old` None: a new file. Characters that the eye does not see are spelled as ⟦U+200B⟧, a carriage return as ␍ where
    the line endings are not all alike; only unchanged parts of long lines are left out, with their length."""
    before, after = _lines(old or ""), _lines(new)
    show_returns = not _same_endings(old if old is not None else new, new)
    shown = visible(path)
    head = [f"--- {shown}" if old is not None else "--- (no file)", f"+++ {shown}"]
    body = [line for group in _groups(before, after) for line in _hunk(group, before, after, show_returns)]
    return "\n".join([*head, *body]) + "\n"


def changed_lines(old: str, new: str) -> tuple[int, int]:
    """Numbers of lines added and removed."""
    before, after = _lines(old), _lines(new)
    blocks = [block for group in _groups(before, after) for block in group if block.kind != "equal"]
    return sum(block.d - block.c for block in blocks), sum(block.b - block.a for block in blocks)


def _lines(text: str) -> list[str]:
    """With their line feeds."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _groups(before: list[str], after: list[str]) -> list[list[_Block]]:
    """Changes with their context. What is equal at both ends is set aside first, so that a small change in a long file is
    compared quickly; a large and repetitive rest is taken as one block."""
    top = _equal_start(before, after)
    bottom = _equal_start(before[top:][::-1], after[top:][::-1])
    middle = _blocks(before[top : len(before) - bottom], after[top : len(after) - bottom])
    blocks = [_Block(one.kind, one.a + top, one.b + top, one.c + top, one.d + top) for one in middle]
    ends_a, ends_c = len(before) - bottom, len(after) - bottom
    surrounded = [_Block("equal", 0, top, 0, top), *blocks, _Block("equal", ends_a, len(before), ends_c, len(after))]
    return _grouped([block for block in surrounded if block.b > block.a or block.d > block.c])


def _equal_start(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _blocks(before: list[str], after: list[str]) -> list[_Block]:
    if len(before) * len(after) > DIFF_PAIRS or _equal_pairs(before, after) > DIFF_EQUAL_PAIRS:
        return [_Block("replace", 0, len(before), 0, len(after))]
    return [_Block(*opcode) for opcode in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()]


def _equal_pairs(before: list[str], after: list[str]) -> int:
    """What the comparison takes time for: a few different lines, repeated often, are many pairs."""
    counts = Counter(after)
    return sum(counts[line] for line in before)


def _grouped(blocks: list[_Block]) -> list[list[_Block]]:
    groups: list[list[_Block]] = [[]]
    for index, block in enumerate(blocks):
        if block.kind != "equal":
            groups[-1].append(block)
            continue
        first, last = index == 0, index == len(blocks) - 1
        if not first and not last and block.b - block.a <= 2 * _CONTEXT:
            groups[-1].append(block)
            continue
        if not first:
            groups[-1].append(_Block("equal", block.a, min(block.b, block.a + _CONTEXT), block.c, min(block.d, block.c + _CONTEXT)))
            groups.append([])
        if not last:
            groups[-1].append(_Block("equal", max(block.a, block.b - _CONTEXT), block.b, max(block.c, block.d - _CONTEXT), block.d))
    return [group for group in groups if any(block.kind != "equal" for block in group)]


def _hunk(group: list[_Block], before: list[str], after: list[str], show_returns: bool) -> Iterator[str]:
    first, last = group[0], group[-1]
    yield f"@@ -{_span(first.a, last.b)} +{_span(first.c, last.d)} @@"
    for block in group:
        if block.kind == "equal":
            yield from _shown(" ", [_shorten(line) for line in before[block.a : block.b]], show_returns, set())
        else:
            old, new = _without_common_ends(before[block.a : block.b], after[block.c : block.d])
            alike = {bare(line) for line in old} & {bare(line) for line in new}
            yield from _shown("-", old, show_returns, alike)
            yield from _shown("+", new, show_returns, alike)


def _span(start: int, end: int) -> str:
    count = end - start
    return f"{start + (count > 0)}" + ("" if count == 1 else f",{count}")


def _without_common_ends(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Two long lines that differ in the middle are shown around the difference. Other lines are shown whole."""
    if len(old) != 1 or len(new) != 1 or max(len(old[0]), len(new[0])) <= DIFF_LINE_BYTES:
        return old, new
    top = _equal_start(list(old[0]), list(new[0]))
    bottom = _equal_start(list(old[0][top:][::-1]), list(new[0][top:][::-1]))
    return [_around(old[0], top, bottom)], [_around(new[0], top, bottom)]


def _around(line: str, top: int, bottom: int) -> str:
    head, tail = line[:top], line[len(line) - bottom :]
    return _shorten(head, at_end=False) + line[top : len(line) - bottom] + _shorten(tail)


def _shorten(text: str, *, at_end: bool = True) -> str:
    """An unchanged text; the part that lies next to the change is kept."""
    if len(text) <= DIFF_LINE_BYTES // 4:
        return text
    kept = DIFF_LINE_BYTES // 4 - 1
    left_out = f"⟦{len(text) - kept} characters unchanged⟧"
    if not at_end:
        return left_out + text[-kept:]
    ending = "\n" if text.endswith("\n") else ""
    return text[:kept].removesuffix("\n") + left_out + ending


def _shown(mark: str, lines: list[str], show_returns: bool, alike: set[str]) -> Iterator[str]:
    """`alike`: lines that differ from a line of the other side in nothing that the eye sees; in them nothing stays hidden."""
    for line in lines:
        plain = line.removesuffix("\n")
        returned = plain.endswith("\r")
        spell = spelled if bare(line) in alike else visible
        yield mark + spell(plain.removesuffix("\r")) + ("␍" if returned and show_returns else "")
        if not line.endswith("\n"):
            yield _NO_NEWLINE


def _same_endings(old: str, new: str) -> bool:
    """Whether all line feeds of both texts follow a carriage return, or none does."""
    lines = old.count("\n") + new.count("\n")
    return old.count("\r\n") + new.count("\r\n") in (0, lines) and "\r" not in (old + new).replace("\r\n", "")
