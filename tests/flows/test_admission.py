"""What stands between an accepted message and the model."""

from pathlib import Path

from agent_builder.protocol.limits import UNHEALTHY_PROBE_S
from tests.support.fake_ollama import FakeOllama, Gate, gated, last, text
from tests.support.gateway import Gateway, catalog


async def test_a_window_too_small_for_an_ordinary_message_takes_the_model_out_of_use(tmp_path: Path) -> None:
    with FakeOllama(window=4096) as fake:
        async with Gateway(tmp_path, fake.port) as gateway:
            (model,) = (await gateway.ok("GET", "/api/models"))["items"]
            assert model["available"] is False
            assert "the window is too small" in model["reason"]
            assert model["reason_code"] == "window_too_small"
            assert (await gateway.client.get("/health")).json()["status"] == "degraded"
            run = await gateway.run(await gateway.new_conversation(), "hello")
            assert (run.terminal["type"], run.terminal["payload"]["code"]) == ("run.failed", "model_unavailable")
            assert fake.chats == []


async def test_another_entry_with_a_window_too_small_is_listed_as_such_without_being_asked_for(tmp_path: Path) -> None:
    with FakeOllama() as fake:
        fake.add_model("narrow:1b", window=4096)
        entry = f'\n[[models]]\nmodel_id = "narrow"\nlabel = "Narrow"\nendpoint = "{fake.url}"\nprovider_model = "narrow:1b"\n'
        async with Gateway(tmp_path, fake.port, catalog_text=catalog(fake.port) + entry) as gateway:
            default, narrow = (await gateway.ok("GET", "/api/models"))["items"]
            assert (default["available"], narrow["available"], narrow["reason_code"]) == (True, False, "window_too_small")


async def test_a_model_that_comes_later_can_be_chosen_from_the_list(tmp_path: Path) -> None:
    with FakeOllama() as fake:
        entry = f'\n[[models]]\nmodel_id = "late"\nlabel = "Late"\nendpoint = "{fake.url}"\nprovider_model = "late:1b"\n'
        async with Gateway(tmp_path, fake.port, catalog_text=catalog(fake.port) + entry) as gateway:
            assert not (await gateway.ok("GET", "/api/models"))["items"][1]["available"]
            fake.add_model("late:1b")
            await gateway.advance(UNHEALTHY_PROBE_S)
            assert (await gateway.ok("GET", "/api/models"))["items"][1]["available"]


async def test_a_window_in_which_only_the_load_fits_stays_out_of_use_after_it(tmp_path: Path) -> None:
    with FakeOllama(window=6144) as fake:
        async with Gateway(tmp_path, fake.port) as gateway:
            (model,) = (await gateway.ok("GET", "/api/models"))["items"]
            assert len(fake.warm_ups) == 1
            assert (model["available"], model["reason_code"]) == (False, "window_too_small")


async def test_instructions_over_a_quarter_of_the_budget_refuse_the_run_and_name_the_file(tmp_path: Path) -> None:
    with FakeOllama(window=16384) as fake:
        async with Gateway(tmp_path, fake.port) as gateway:
            (gateway.workspace / "agent-builder.md").write_text("Be kind. " * 800)
            run = await gateway.run(await gateway.new_conversation(), "hello")
            assert (run.terminal["type"], run.terminal["payload"]["code"]) == ("run.failed", "instructions_refused")
            assert "agent-builder.md" in run.terminal["payload"]["message"]
            assert fake.chats == []


async def test_unsafe_instructions_refuse_the_send_with_the_line_that_repairs_them(gateway: Gateway) -> None:
    conversation = await gateway.new_conversation()
    (gateway.workspace / "agent-builder.md").chmod(0o622)
    answer = await gateway.call("POST", f"{gateway.agent}/sessions/{conversation}/runs", {"message": "hello"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "instructions_refused")
    assert "chmod 600" in answer.json()["error"]["message"]
    assert (await gateway.page(conversation))["turns"] == []


async def test_a_turn_sent_while_the_model_loads_waits_and_does_not_pay_for_it(tmp_path: Path, fake: FakeOllama) -> None:
    gate = Gate()
    fake.warm_up = gated(gate, text("x"))
    gateway = Gateway(tmp_path, fake.port, profile="budgets = { run_s = 5 }\n")
    try:
        await gateway.start(ready=False)
        await gateway.login()
        await send_while_loading(gateway, gate)
    finally:
        gate.open()
        await gateway.stop()
        await gateway.client.aclose()


async def send_while_loading(gateway: Gateway, gate: Gate) -> None:
    accepted = await gateway.submit(await gateway.new_conversation(), "hello")
    stages = []
    async for event in gateway.events(accepted["run_id"]):
        if event["type"] == "run.stage":
            stages.append(event["payload"]["stage"])
            if stages == ["preparing", "loading_model"]:
                await gateway.advance(8)  # longer than a Run may take, shorter than a Worker may take to start
                gate.open()
    assert event["type"] == "run.completed", str(event["payload"])
    assert stages[:2] == ["preparing", "loading_model"]


async def test_the_reading_speed_observed_before_a_restart_is_known_after_it(tmp_path: Path, fake: FakeOllama) -> None:
    """Of a model that is not loaded at start: its first Turn then says how long its prompt will take."""
    entry = catalog(fake.port)
    both = entry + entry[entry.index("[[models]]") :].replace('model_id = "test"', 'model_id = "second"')
    async with Gateway(tmp_path, fake.port, catalog_text=both) as gateway:
        conversation = await gateway.new_conversation()
        fake.script(text("a", end=last(prompt_eval_duration=20 * 10**9)))
        await gateway.run(conversation, "word " * 400, model_id="second")
        await gateway.restart()
        run = await gateway.run(conversation, "word " * 400, model_id="second")
    (evaluating,) = [payload for payload in run.of("run.stage") if payload["stage"] == "evaluating_prompt"]
    assert evaluating["expected_s"] > 1
