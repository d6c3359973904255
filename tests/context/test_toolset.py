"""The Tools that a Run is offered."""

from agent_builder.context.toolset import resolve_toolset, toolset_of
from agent_builder.protocol.ids import is_id
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.protocol.toolspec import DENY, ToolCatalog
from tests.support.plans import a_model


def test_the_release_tools_are_offered_in_catalog_order_without_echo():
    offered = [spec.id for spec in resolve_toolset(CATALOG, a_model(), budget=2).specs]
    assert offered == [spec.id for spec in CATALOG.specs if spec.id != "builtin/echo" and not spec.optional]


def test_a_model_without_tools_or_a_spent_budget_gets_none():
    nothing = toolset_of(())
    assert resolve_toolset(CATALOG, a_model(tools=False), budget=2) == nothing
    assert resolve_toolset(CATALOG, a_model(), budget=0) == nothing
    assert nothing.schemas == ()


def test_an_optional_tool_is_offered_where_the_agent_has_what_it_works_with():
    catalog = ToolCatalog(tuple(spec._replace(optional=spec.id == "exec/run") for spec in CATALOG.specs))
    without, present = (resolve_toolset(catalog, a_model(), budget=1, present=ids) for ids in (frozenset(), frozenset({"exec/run"})))
    assert [spec.id for spec in present.specs if spec not in without.specs] == ["exec/run"]
    assert present.digest != without.digest


def test_a_denied_tool_is_not_offered():
    catalog = ToolCatalog(tuple(spec._replace(policy=DENY) if spec.id == "exec/run" else spec for spec in CATALOG.specs))
    assert "exec/run" not in [spec.id for spec in resolve_toolset(catalog, a_model(), budget=1).specs]


def test_a_toolset_is_named_by_its_content():
    whole = resolve_toolset(CATALOG, a_model(), budget=2)
    assert is_id(whole.toolset_id)
    assert whole == resolve_toolset(CATALOG, a_model(4096), budget=9)
    assert whole.digest != toolset_of(whole.specs[:-1]).digest
