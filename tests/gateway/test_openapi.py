import json
from pathlib import Path
from typing import Any

from agent_builder.gateway.openapi import document, document_json
from agent_builder.gateway.routes.table import ENDPOINTS
from agent_builder.protocol.errors import leaf_classes

CHECKED_IN = Path(__file__).parents[2] / "docs/openapi.json"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_the_document_in_docs_is_the_one_that_is_served() -> None:
    assert CHECKED_IN.read_text() == document_json(), "run: python -m agent_builder.gateway.openapi > docs/openapi.json"
    assert json.loads(document_json())["openapi"] == "3.1.0"


def test_every_operation_is_in_it_under_a_name_of_its_own() -> None:
    operations = {(path, method): one for path, methods in document()["paths"].items() for method, one in methods.items()}
    assert set(operations) == {(endpoint.path, endpoint.method.lower()) for endpoint in ENDPOINTS}
    assert len({one["operationId"] for one in operations.values()}) == len(operations)


def test_every_reference_leads_somewhere() -> None:
    found = document()
    assert references(found) <= {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}


def test_the_error_shape_knows_every_code() -> None:
    assert document()["components"]["schemas"]["ErrorShape"]["properties"]["code"]["enum"] == sorted(leaf_classes())


def test_no_description_holds_a_path_of_this_machine() -> None:
    assert str(Path(__file__).parents[2]) not in document_json()
