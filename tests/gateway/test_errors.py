import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from agent_builder.gateway.errors import STATUS, ErrorBorder, MethodRefused, error_response, field_fault
from agent_builder.protocol.errors import (
    AgentBuilderError,
    ConversationBusy,
    LoginThrottled,
    ModelContextLimit,
    RequestError,
    leaf_classes,
)
from tests.gateway.asgi_client import AsgiClient

PAGE = (Path(__file__).parents[2] / "docs/error-codes.md").read_text()
ROW = re.compile(r"^\| `(?P<code>\w+)` \| (?:(?P<status>\d+) \| )?(?P<retryable>yes|no) \|(?P<rest>.*)\|$", re.MULTILINE)


def test_the_page_holds_exactly_the_codes_there_are_with_their_status_and_whether_a_retry_helps() -> None:
    rows = {row["code"]: (row["status"], row["retryable"]) for row in ROW.finditer(PAGE)}
    assert len(rows) == len(ROW.findall(PAGE))
    assert rows == {
        code: (str(STATUS[code]) if issubclass(leaf, RequestError) else None, "yes" if leaf.retryable else "no")
        for code, leaf in leaf_classes().items()
    }


def test_each_row_says_in_one_sentence_what_happened_and_the_way_out() -> None:
    for row in ROW.finditer(PAGE):
        *_, happened, way_out = (cell.strip() for cell in row["rest"].split("|"))
        assert happened.endswith("."), row["code"]
        assert way_out.endswith("."), row["code"]


def test_every_request_error_has_its_status() -> None:
    assert {code: STATUS[code] for code in sorted(STATUS)} == {
        "agent_busy": 409, "agent_damaged": 503, "agent_draining": 503, "agent_limit": 409, "attachment_refused": 409,
        "conversation_busy": 409, "conversation_limit": 409, "csrf_failed": 403, "forbidden_host": 403, "forbidden_origin": 403,
        "idempotency_mismatch": 409, "instructions_refused": 409, "internal": 500, "invalid_request": 400, "invalid_session_cursor": 400,
        "login_throttled": 429, "not_found": 404, "permission_stale": 409, "protected_agent": 403, "run_limit": 429, "starting": 503,
        "storage_full": 503, "subscriber_limit": 429, "too_large": 413, "unauthenticated": 401,
    }


def test_an_error_has_one_shape() -> None:
    answer = error_response(ConversationBusy(run="x"))
    assert answer.status_code == 409
    assert json.loads(bytes(answer.body)) == {
        "error": {"code": "conversation_busy", "message": ConversationBusy.sentence, "retryable": True, "details": {"run": "x"}}
    }
    assert "details" not in json.loads(bytes(error_response(ConversationBusy()).body))["error"]


def test_a_throttled_login_says_when_to_come_back() -> None:
    assert error_response(LoginThrottled(retry_after_s=7)).headers["retry-after"] == "7"


def test_a_refused_method_names_the_others() -> None:
    answer = error_response(MethodRefused(["GET", "HEAD"]))
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert json.loads(bytes(answer.body))["error"]["code"] == "invalid_request"


class Sample(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    count: int


@pytest.mark.parametrize(("raw", "field"), [
    ('{"count": "hunter2"}', "count"), ('{"count": 1, "hunter2": 1}', "hunter2"), ("{}", "count"), ('"hunter2"', None), ("{", None),
])
def test_a_wrong_field_is_named_and_its_value_is_not_repeated(raw: str, field: str | None) -> None:
    with pytest.raises(ValidationError) as fault:
        Sample.model_validate_json(raw)
    error = field_fault(fault.value)
    assert error.details["field"] == field
    assert field == "hunter2" or "hunter2" not in error.message


async def through_border(raised: BaseException, *, after_start: bool = False) -> AsgiClient:
    async def app(scope: object, receive: object, send: object) -> None:
        if after_start:
            await client.send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})  # type: ignore[operator]
        raise raised

    client = AsgiClient()
    await ErrorBorder(app)(client.scope(), client.receive, client.send)  # type: ignore[arg-type]
    return client


async def test_a_known_error_becomes_its_answer() -> None:
    client = await through_border(ConversationBusy())
    assert client.status == 409


@pytest.mark.parametrize("fault", [ValueError("secret prompt /home/x"), ModelContextLimit("secret"), AgentBuilderError("secret")])
async def test_an_unknown_fault_becomes_an_incident_that_tells_nothing(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    client = await through_border(fault)
    error = json.loads(client.received)["error"]
    assert (client.status, error["code"], error["retryable"]) == (500, "internal", True)
    assert "secret" not in client.received.decode() + caplog.text
    (record,) = caplog.records
    assert error["details"]["incident"] in record.getMessage()
    assert "test_errors.py" in record.getMessage()


async def test_an_answer_that_has_begun_is_broken_off() -> None:
    client = await through_border(ValueError(), after_start=True)
    assert client.aborted
    assert not client.complete
