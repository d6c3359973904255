"""A chat request is refused where Ollama refuses it, and llama.cpp gets what it means."""

from typing import Any

import pytest

from agent_builder.local_model.requests import OllamaError, check_options, llama_body, parse_chat

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def translated(**more: Any) -> dict[str, Any]:
    return llama_body(parse_chat({**BODY, **more}), slot=1, think=None)


def test_a_plain_request_gets_ollamas_defaults() -> None:
    request = parse_chat(BODY)
    assert (request.stream, request.truncate, request.shift, request.num_ctx, request.keep_alive_s) == (True, True, True, 4096, None)
    assert translated() == {
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.0, "repeat_penalty": 1.0, "repeat_last_n": 64,
        "stream": True, "return_progress": True, "cache_prompt": True, "id_slot": 1, "n_predict": 40960,
    }  # fmt: skip


def test_a_tool_result_and_its_call_keep_name_id_and_arguments() -> None:
    call = {"id": "c1", "function": {"index": 0, "name": "ls", "arguments": {"path": "."}}}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_name": "ls", "tool_call_id": "c1", "content": "a"}]
    assert translated(messages=messages)["messages"] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": {"path": "."}}}],
        },
        {"role": "tool", "content": "a", "tool_call_id": "c1", "name": "ls"},
    ]


def test_a_tool_schema_keeps_what_ollama_keeps() -> None:
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["n"],
        "properties": {"n": {"type": "integer", "minimum": 1, "description": "how many"}, "l": {"type": "array", "items": {"type": "string", "maxLength": 3}}},
    }
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}
    kept = translated(tools=[tool])["tools"][0]["function"]["parameters"]
    assert kept == {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "integer", "description": "how many"}, "l": {"type": "array", "items": {"type": "string"}}},
    }


@pytest.mark.parametrize(("num_predict", "sent"), [(1, 1), (128, 128), (40960, 40960), (40961, 40960), (-1, 40960), (0, 1)])
def test_the_output_is_bounded_by_ten_windows(num_predict: int, sent: int) -> None:
    assert translated(options={"num_predict": num_predict})["n_predict"] == sent


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("30m", 1800.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("500ms", 0.5), ("-1m", -60.0), ("0", 0.0), (0, 0.0), (-1, -1.0), (300, 300.0), (None, None)],
)
def test_keep_alive_is_a_go_duration_or_seconds(value: Any, seconds: float | None) -> None:
    assert parse_chat({**BODY, "keep_alive": value}).keep_alive_s == seconds


@pytest.mark.parametrize(
    "more",
    [
        {"model": 5}, {"messages": {}}, {"messages": ["x"]}, {"messages": [None]}, {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, {"options": []}, {"stream": "yes"}, {"truncate": 1}, {"tools": {}},
        {"tools": [{"type": "function"}]}, {"tools": [{"function": {"name": "f", "parameters": []}}]}, {"think": "very"}, {"format": "xml"},
        {"keep_alive": "30"}, {"keep_alive": "soon"}, {"keep_alive": True},
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
    ],
)  # fmt: skip
def test_a_request_of_a_wrong_type_is_a_bad_request(more: dict[str, Any]) -> None:
    with pytest.raises(OllamaError) as refused:
        parse_chat({**BODY, **more})
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_ctx": "4096"}, 'option "num_ctx" must be of type integer'),
        ({"num_ctx": True}, 'option "num_ctx" must be of type integer'),
        ({"temperature": "hot"}, 'option "temperature" must be of type float32'),
        ({"stop": "x"}, 'option "stop" must be of type array'),
        ({"stop": [1]}, 'option "stop" must be of type array'),
    ],
)
def test_an_option_of_a_wrong_type_is_an_error_of_the_server(options: dict[str, Any], text: str) -> None:
    with pytest.raises(OllamaError) as refused:
        check_options(options)
    assert (refused.value.status, refused.value.text) == (500, text)


def test_unknown_and_empty_options_are_ignored() -> None:
    check_options({"num_ctx": None, "temperature": 1, "top_k": 20.0, "no_such_option": "x", "stop": ["a"]})
    assert "no_such_option" not in translated(options={"no_such_option": 1})
