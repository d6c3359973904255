"""Looking at a Run's context."""

import logging
from pathlib import Path

import pytest

from agent_builder.conversations.inspection import Inspection, redacted
from agent_builder.protocol.errors import NotFound
from agent_builder.protocol.ids import new_id
from tests.support.conversing import Conversing, conversing
from tests.support.fake_ollama import FakeOllama
from tests.support.plans import an_attachment

SECRET = "hunter2hunter2"


async def a_run(talk: Conversing, text: str = "the question itself", attached: str = "attached text"):
    file = talk.workspace / "agent-builder.md"
    file.write_text("The instructions themselves.")
    file.chmod(0o600)
    await talk.say("an earlier question", "an earlier answer")
    return await talk.say(text, attachments=(an_attachment(attached),))


def opened(talk: Conversing, *, reveal: bool = False) -> Inspection:
    return Inspection(talk.database, talk.admission, reveal_enabled=reveal)


async def test_sections_are_listed_without_any_text(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await a_run(talk)
        view = await opened(talk).of(admitted.identity.run_id)
        assert view.source == "plan"
        assert [(one.name, one.role, one.trust, one.revealable) for one in view.sections] == [
            ("platform", "system", "trusted", False), ("agent", "system", "trusted", False), ("workspace", "system", "trusted", False),
            ("environment", "system", "trusted", True), ("turn", "conversation", "untrusted", True),
            ("attachment", "user", "untrusted", True), ("message", "user", "operator", True),
        ]
        assert (view.window, view.input_budget, view.output_reserve, view.headroom) == (32768, 28672, 4096, 4352)
        assert view.history.model_dump() == {"included": 1, "omitted": 0, "collapsed": 0}
        shown = view.model_dump_json()
        for text in ("the question itself", "The instructions themselves", "an earlier", "attached text", "You are an Agent"):
            assert text not in shown


async def test_after_a_restart_only_what_run_started_said_is_known(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await a_run(talk)
        view = await opened(talk.restarted()).of(admitted.identity.run_id)
        assert (view.source, view.sections, view.plan_digest) == ("run_started", None, admitted.plan.digest)
        assert (view.input_budget, view.admission_tokens) == (28672, admitted.plan.admission.tokens)
        assert view.history.included == 1


async def test_a_turn_that_was_never_admitted_has_no_context(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        run = await talk.begin()
        assert (await opened(talk).of(run.identity.run_id)).model_dump(exclude_none=True) == {
            "run_id": run.identity.run_id, "source": "none",
        }


async def test_a_run_of_another_agent_is_not_found(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        with pytest.raises(NotFound):
            await opened(talk).of(new_id())


async def test_the_reveal_is_off_unless_enabled_at_start(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await a_run(talk)
        with pytest.raises(NotFound):
            await opened(talk).reveal(admitted.identity.run_id, 6)


async def test_instructions_are_never_revealed(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await a_run(talk)
        for index in (0, 1, 2, 7, -1):
            with pytest.raises(NotFound):
                await opened(talk, reveal=True).reveal(admitted.identity.run_id, index)


async def test_other_sections_are_revealed_bounded_redacted_and_logged(tmp_path: Path, fake: FakeOllama, caplog):
    async with conversing(tmp_path, fake) as talk:
        admitted = await a_run(talk, "my password=" + SECRET + " " + "中" * 1000)
        with caplog.at_level(logging.WARNING):
            shown = await opened(talk, reveal=True).reveal(admitted.identity.run_id, 6)
        assert shown.text.startswith("my [redacted] 中")
        assert len(shown.text.encode()) <= 2048
        assert shown.truncated
        assert f"run {admitted.identity.run_id}, section 6 (message)" in caplog.text
        assert SECRET not in caplog.text
        assert "中" not in caplog.text


@pytest.mark.parametrize("text", [
    f"password: {SECRET}", f"DB_PASSWORD='{SECRET}'", f'"api_key": "{SECRET}"', f"Authorization: Bearer {SECRET}", f"token={SECRET}",
    f"https://user:{SECRET}@example.org/", f"ghp_{SECRET}", f"sk-{SECRET}", f"eyJhbGciOiJIUzI1.{SECRET}.x", f"AWS_SECRET_ACCESS_KEY = {SECRET}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----", f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
])
def test_credentials_are_struck_out(text):
    shown = redacted(f"before {text} after" if "PRIVATE" not in text else text)
    assert SECRET not in shown
    assert "[redacted]" in shown


def test_ordinary_text_is_left_alone():
    text = "The tokens of a secretary pass: see notes.txt, port 8080, time 12:30."
    assert redacted(text) == text
