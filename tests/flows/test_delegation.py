"""One Agent asks another through the whole system: two real Agents of one Gateway, each Run with its own Worker."""

from tests.support.delegating import two_agents
from tests.support.fake_ollama import FakeOllama, text
from tests.support.gateway import Gateway


async def test_an_approved_delegation_answers(gateway: Gateway, fake: FakeOllama) -> None:
    two = await two_agents(gateway, fake)
    fake.script(two.ask("What is 2 + 3?"), text("5, of course"), text("Bob says 5."))
    run = await two.run("ask Bob")
    assert run.text == "Bob says 5."
    print(run.events)
