"""Models, Turns and texts for tests of planning."""

from datetime import date

from hypothesis import strategies as st

from agent_builder.context.compiler import compile_plan, render_call
from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.context.inputs import PlanInputs
from agent_builder.context.results import completed_bundle
from agent_builder.context.toolset import resolve_toolset
from agent_builder.protocol.messages import Attachment, CompletedTurnContext, Exchange, ToolExchange
from agent_builder.protocol.model_profile import ModelProfile, QualifiedModel
from agent_builder.protocol.request import TokenCounter
from agent_builder.protocol.tool_catalog import CATALOG

TODAY = date(2026, 3, 1)

# Stands for a model's own tokenizer: about three bytes to a token, never more tokens than bytes.
EXACT_COUNTER = TokenCounter(name="gguf-bpe-v1", count=lambda text: -(-len(text.encode()) // 3), exact=True)
COUNTERS = (BYTES_COUNTER, EXACT_COUNTER)


def a_model(window: int = 8192, *, tools: bool = True, model_id: str = "m", digest: str = "d" * 64) -> QualifiedModel:
    profile = ModelProfile(model_id=model_id, label="M", endpoint="http://provider", provider_model="p", tools=tools)
    return QualifiedModel(
        profile=profile, digest=digest, capabilities=("completion", "tools"), native_window=window, window=window,
        output_reserve=min(4096, max(1024, window // 8)), tools=tools, estimator="utf8-bytes-upper-bound-v1",
    )


def a_turn(number: int, text: str = "question", answer: str = "answer", **more: object) -> CompletedTurnContext:
    return CompletedTurnContext(turn_id=f"turn-{number}", user_text=f"{text} {number}", answer=f"{answer} {number}", **more)


def a_call(call_id: str = "call_1", result: str = "file text", path: str = "notes.txt") -> Exchange:
    call = ToolExchange(
        call_id=call_id, tool_id="file/read_text", arguments={"path": path}, written_as_text=False, outcome="ok", result=result
    )
    return Exchange(calls=(call,))


def an_attachment(text: str = "attached", *, truncated: bool = False) -> Attachment:
    return Attachment(path="notes.txt", bytes=len(text.encode()), digest="a" * 64, truncated=truncated, text=text)


def inputs(model: QualifiedModel | None = None, user_text: str = "say hi", **more: object) -> PlanInputs:
    model = a_model() if model is None else model
    return PlanInputs(model=model, toolset=resolve_toolset(CATALOG, model, budget=2), today=TODAY, user_text=user_text, **more)


# Text as people write it: Latin, Chinese, emoji, code.
alphabet = st.sampled_from(list("abc 123 {}[]<>&\"\\\n\t中文字喵🙂👩‍💻é"))
texts = st.text(alphabet, min_size=1, max_size=40)
long_texts = st.builds(lambda text, times: text * times, texts, st.integers(1, 120))
exchanges = st.one_of(
    st.builds(
        lambda calls, text: Exchange(text=text, calls=tuple(calls)),
        st.lists(
            st.builds(
                lambda name, result: ToolExchange(
                    call_id=f"call_{name}", tool_id="file/read_text", arguments={"path": name, "max_lines": 3}, written_as_text=False,
                    outcome="ok", result=result,
                ),
                texts, long_texts,
            ),
            min_size=1, max_size=2,
        ),
        st.sampled_from(["", "I look."]),
    ),
    st.builds(lambda text: Exchange(text=text, correction="This call was not executed."), texts),
)
turns = st.builds(
    lambda text, answer, preface, steps: CompletedTurnContext(
        turn_id="t", user_text=text, answer=answer, preface=preface, exchanges=tuple(steps)
    ),
    texts, long_texts, st.one_of(st.just(""), texts), st.lists(exchanges, max_size=2),
)
histories = st.lists(turns, max_size=14).map(
    lambda found: tuple(one.model_copy(update={"turn_id": f"turn-{index}"}) for index, one in enumerate(found))
)
windows = st.sampled_from([4096, 8192, 32768])

MODELS = (a_model(8192), a_model(32768, model_id="large"), a_model(16384, model_id="plain", tools=False))

turn_steps = st.fixed_dictionaries({
    "text": st.builds(lambda text, times: text * times, texts, st.integers(1, 20)),
    "steps": st.lists(exchanges, max_size=2),
    "git": st.sampled_from([None, "", " M a.txt", " M b.txt"]),
    "attached": st.booleans(),
    "model": st.sampled_from([0, 0, 0, 0, 1, 2]),
    "compact": st.sampled_from([False] * 7 + [True]),
    "finalize": st.booleans(),
    "answer": st.builds(lambda text, times: text * times, texts, st.integers(1, 60)),
})


class Talk:
    """A Conversation as it grows: gives all requests of each Turn."""

    def __init__(self, counter) -> None:
        self.counter = counter
        self.history: tuple[CompletedTurnContext, ...] = ()
        self.compacted = 0

    def turn(self, *, text, steps, git, attached, model, compact, finalize, answer):
        model = MODELS[model]
        given_inputs: PlanInputs = inputs(
            model, text, history=self.history, git_status=git, attachments=(an_attachment(),) if attached else (),
            compact=compact, compacted=self.compacted,
        )
        plan = compile_plan(given_inputs, self.counter)
        if compact:
            self.compacted = plan.start
        requests = [
            render_call(plan, steps[:done], with_tools=True, finalize=finalize and done == len(steps), counter=self.counter)
            for done in range(len(steps) + 1)
        ]
        self.history += (completed_bundle(f"turn-{len(self.history)}", text, plan.preface, steps, answer, finalized=finalize),)
        return model, plan, requests
