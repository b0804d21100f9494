"""Which of a server's tools are offered: bounded in number and bytes; what is left out is told with its reason."""

from typing import Any

from pentad.contracts.tool_servers import MAX_LEFT_OUT, ToolServer
from pentad.contracts.tools import CallLimit, Effect
from pentad.services.tool_worker.servers.tool_list import (
    MAX_DESCRIPTION,
    MAX_TOOLS,
    ListedTool,
    OfferedTools,
    offered_tools,
)
from tests.support.mcp.raw_server import bomb, hostile_tools

SERVER = ToolServer(name="s", command="x")
PLAIN: dict[str, Any] = {"type": "object", "properties": {}}


def listed(name: str, schema: dict[str, Any] | None = None, description: str = "", **hints: bool) -> ListedTool:
    return ListedTool(name, description, PLAIN if schema is None else schema, **hints)


def why(offered: OfferedTools, tool: str) -> str:
    return next(each.why for each in offered.left_out if each.tool == tool)


def test_what_a_server_says_of_a_tools_effect_is_taken_and_silence_is_unsafe() -> None:
    both = listed("both", read_only=True, idempotent=True)
    tools = [listed("reads", read_only=True), listed("puts", idempotent=True), listed("does"), both]
    offered = offered_tools(SERVER, tools)
    assert {name: spec.effect for name, spec in offered.specs.items()} == {
        "s__reads": Effect.PURE,
        "s__puts": Effect.IDEMPOTENT,
        "s__does": Effect.UNSAFE,
        "s__both": Effect.PURE,
    }


def test_a_tool_has_its_servers_time_limit_and_names_its_secrets() -> None:
    server = ToolServer(name="s", url="https://h", headers={"A": "{{secret:B}} {{ secret:A }}"}, timeout=7)
    (spec,) = offered_tools(server, [listed("t")]).specs.values()
    assert (spec.timeout, spec.secrets) == (7, ["A", "B"])


def test_the_tools_of_a_server_with_a_limit_count_together() -> None:
    server = ToolServer(name="s", command="x", concurrency=2, rate="10/min")
    one, two = offered_tools(server, [listed("a"), listed("b")]).specs.values()
    assert one.limit == two.limit == CallLimit("@s", 2, "10/min")
    assert one.breaker is None


def test_only_the_tools_that_an_entry_wants_are_offered() -> None:
    server = ToolServer(name="s", command="x", only=("a", "b"), without=("b",))
    assert list(offered_tools(server, [listed(name) for name in "abc"]).specs) == ["s__a"]


def test_of_a_hostile_list_what_is_good_is_offered_and_the_rest_is_told() -> None:
    tools = [ListedTool(tool["name"], tool.get("description", ""), tool["inputSchema"]) for tool in hostile_tools()]
    offered = offered_tools(SERVER, tools)
    assert len(offered.specs) == MAX_TOOLS
    assert {"s__good", "s__long", "s__loop"} <= set(offered.specs)
    assert len(offered.specs["s__long"].description) == MAX_DESCRIPTION
    assert len(offered.left_out) == MAX_LEFT_OUT
    assert offered.left_out_count == len(tools) - MAX_TOOLS
    assert "more than 5000 parts" in why(offered, "bomb")
    assert "refers to http://127.0.0.1/s, which is not in it" in why(offered, "away")
    assert "at most 32768" in why(offered, "giant")
    assert f"more than {MAX_TOOLS} tools" in offered.left_out[-1].why


def test_a_schema_that_names_itself_is_offered_and_one_that_grows_endlessly_is_not() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"$ref": "#"}}}
    assert offered_tools(SERVER, [listed("t", tree)]).specs
    assert not offered_tools(SERVER, [listed("t", bomb(30))]).specs


def test_a_deep_schema_is_left_out() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"x": deep}}
    assert "levels" in why(offered_tools(SERVER, [listed("t", deep)]), "t")


def test_two_tools_of_one_name_are_resolved_in_the_order_of_their_own_names() -> None:
    twice = [listed("t", description="first"), listed("t", description="second")]
    offered = offered_tools(SERVER, twice)
    assert offered.left_out_count == 1
    assert "another tool of this server has the name s__t" in why(offered, "t")
    assert offered_tools(SERVER, list(reversed([listed("a"), listed("b c")]))) == offered_tools(
        SERVER, [listed("a"), listed("b c")]
    )


def test_the_list_as_a_whole_is_bounded_in_bytes() -> None:
    large = {"type": "object", "description": "x" * 30_000}
    offered = offered_tools(SERVER, [listed(f"t{n:03}", large) for n in range(100)])
    assert 30 < len(offered.specs) < 36
    assert "bytes of schemas and descriptions already" in offered.left_out[0].why
