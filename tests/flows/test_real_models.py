"""The whole way with real weights: two models side by side in one catalog, exact counts, a restart, an approval and a denial."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.browser import write
from tests.support.embedded_gateway import embedded_gateway
from tests.support.gateway import Gateway, RunResult

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

SMALL, WITHOUT_TOOLS = "qwen2.5-coder:0.5b", "smollm2:135m"
MARKS = 4  # tokens of both models' templates around a message
NOTES = "# Meeting\n\nThe meeting is on Tusday.\nBring the blue folder.\n"
CHANGE = "Change the text Tusday to Tuesday in the file notes.md."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """Beside a running server with both small models; shared by all tests."""
    async with embedded_gateway(tmp_path_factory.mktemp("real"), "small", "smollm2") as running:
        yield running


async def counted(gateway: Gateway, run: RunResult) -> tuple[int, int]:
    """Tokens that the server reported for the Run's only request, and those of its texts as they were counted."""
    context = await gateway.ok("GET", f"{gateway.agent}/runs/{run.run_id}/context")
    (finished,) = run.of("model.response.finished")
    return finished["usage"]["input"], sum(section["tokens"] for section in context["sections"])


def completed(run: RunResult) -> RunResult:
    assert run.terminal["type"] == "run.completed", run.terminal
    assert run.terminal["payload"]["usage"]["complete"] is True
    return run


async def test_a_conversation_with_switches_of_model_and_a_restart(gateway: Gateway) -> None:
    """Counts stay exact, the model without tools gets none, and what was said is known after the restart."""
    conversation = await gateway.new_conversation()
    completed(await gateway.run(conversation, "My favourite bird is the heron. Reply with one word: ok."))
    plain = completed(await gateway.run(conversation, "Say hello.", model_id=WITHOUT_TOOLS))
    assert plain.of("run.started")[0]["model_id"] == WITHOUT_TOOLS
    context = await gateway.ok("GET", f"{gateway.agent}/runs/{plain.run_id}/context")
    assert context["tools"] == []
    await gateway.restart()
    last = completed(await gateway.run(conversation, "Which bird did I name as my favourite? Answer in one word.", model_id=SMALL))
    assert "heron" in last.text.lower()
    by_id = {model["model_id"]: model for model in (await gateway.ok("GET", "/api/models"))["items"]}
    assert by_id[SMALL]["available"] is True
    context = await gateway.ok("GET", f"{gateway.agent}/runs/{last.run_id}/context")
    assert context["estimator"] == "gguf-bpe-v1"
    started, used = last.of("run.started")[0], last.of("model.response.finished")[0]["usage"]["input"]
    assert used <= started["admission_tokens"]


@pytest.mark.parametrize("model_id", [SMALL, WITHOUT_TOOLS])
async def test_the_server_reports_exactly_the_tokens_that_a_turn_adds(gateway: Gateway, model_id: str) -> None:
    """Instructions, tools and the template's fixed part stand in both requests; each new message adds its text and its marks."""
    conversation = await gateway.new_conversation()
    messages = ["Reply with one word: ok.", "Reply with one word: 你好 🙂 fine, or nothing else."]
    (first, text), (second, longer) = [
        await counted(gateway, completed(await gateway.run(conversation, message, model_id=model_id))) for message in messages
    ]
    assert second - first == longer - text + 2 * MARKS


@pytest.mark.parametrize(("decision", "outcome"), [("deny", "denied"), ("approve", "ok")])
async def test_only_an_approved_change_reaches_the_file(gateway: Gateway, decision: str, outcome: str) -> None:
    """The attached file counts as read; what the model says at the end is its own affair."""
    path = write(gateway, "notes.md", NOTES)
    run = await gateway.run(await gateway.new_conversation(), CHANGE, decide=decision, model_id=SMALL, attachments=["notes.md"])
    asked = run.of("tool.call.finished")[0]
    assert (asked["tool_id"], asked["outcome"], run.terminal["type"]) == ("file/edit", outcome, "run.completed")
    assert path.read_text() == (NOTES.replace("Tusday", "Tuesday") if decision == "approve" else NOTES)
