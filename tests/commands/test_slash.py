import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.commands.command_types import SlashOutcome
from agent_builder.commands.slash import SlashCommand, SlashRegistry
from agent_builder.protocol.errors import InvalidRequest

Scene = list[str | None]


async def note(scene: Scene, word: str | None) -> SlashOutcome:
    scene.append(word)
    return SlashOutcome("done")


REGISTRY: SlashRegistry[Scene] = SlashRegistry((
    SlashCommand("status", ("st",), "Shows.", note),
    SlashCommand("cancel", ("stop",), "Stops.", note, "run_id", (("type", "string"),)),
))


@pytest.mark.parametrize(("line", "word"), [
    ("/status", None), ("/st", None), ("/STATUS", None), ("/ status ", None), ("/cancel", None), ("/cancel r1", "r1"), ("/stop\tr1\n", "r1"),
])
async def test_a_command_is_found_by_name_or_alias_with_its_word(line: str, word: str | None) -> None:
    scene: Scene = []
    assert await REGISTRY.run(line, scene) == SlashOutcome("done")
    assert scene == [word]


@pytest.mark.parametrize(("line", "nearest"), [
    ("/statsu", "/status"), ("/stat", "/status"), ("/cancle x", "/cancel"), ("/stopp", "/stop"), ("/", "/status, /cancel"), ("/zzzz", "/status, /cancel"),
])
async def test_an_unknown_name_is_answered_with_the_nearest_ones(line: str, nearest: str) -> None:
    scene: Scene = []
    outcome = await REGISTRY.run(line, scene)
    assert outcome.output.partition("Nearest: ")[2].startswith(nearest)
    assert scene == []


@pytest.mark.parametrize("line", ["/status now", "/cancel a b"])
async def test_too_many_words_are_answered_with_the_usage(line: str) -> None:
    scene: Scene = []
    outcome = await REGISTRY.run(line, scene)
    assert outcome.output.startswith("Usage: /")
    assert [said.code for said in outcome.lines] == ["usage", f"help_{line[1:7]}"]
    assert scene == []


@pytest.mark.parametrize("line", ["", "status", " /status"])
async def test_a_line_without_a_slash_is_no_command(line: str) -> None:
    with pytest.raises(InvalidRequest):
        await REGISTRY.run(line, [])


@given(st.text(max_size=100))
async def test_any_line_is_answered_or_refused(text: str) -> None:
    assert (await REGISTRY.run(f"/{text}", [])).output


def test_arguments_are_described_by_a_schema() -> None:
    status, cancel = REGISTRY.commands
    assert status.arguments() == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert cancel.arguments()["properties"] == {"run_id": {"type": "string"}}
    assert (status.usage, cancel.usage) == ("/status", "/cancel [run_id]")


def test_two_commands_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match="share a name"):
        SlashRegistry((SlashCommand("a", (), "", note), SlashCommand("b", ("a",), "", note)))
