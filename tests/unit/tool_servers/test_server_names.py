"""Names of servers' tools: the same everywhere, at most 64 characters, and no server can take another one's."""

import re

from hypothesis import given
from hypothesis import strategies as st

from pentad.shared.tool_servers.server_names import MAX_TOOL_NAME, same_prefixes, server_prefix, tool_name

TOOL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_plain_names_are_joined() -> None:
    assert tool_name("github", "create_issue") == "github__create_issue"
    assert tool_name("GitHub MCP", "get-me") == "GitHub_MCP__get-me"


def test_a_name_that_had_to_be_changed_ends_with_a_digest_that_tells_it_apart() -> None:
    spaced, scored = tool_name("s", "read file"), tool_name("s", "read_file")
    assert scored == "s__read_file"
    assert re.fullmatch(r"s__read_file-[0-9a-f]{8}", spaced)
    assert tool_name("s", "x" * 100) != tool_name("s", "x" * 101)


@given(st.text(max_size=120), st.text(max_size=300))
def test_every_name_is_one_that_model_servers_take(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert TOOL.fullmatch(name)
    assert len(name) <= MAX_TOOL_NAME
    assert name == tool_name(server, tool)


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=60), st.text(max_size=60))
def test_two_servers_never_share_a_tools_name_unless_they_are_told_apart_first(
    one: str, other: str, tool: str, another: str
) -> None:
    if not same_prefixes([one, other]) and one != other:
        assert tool_name(one, tool) != tool_name(other, another)


@given(st.text(max_size=120))
def test_the_beginning_of_a_name_ends_where_its_first_separator_begins(server: str) -> None:
    prefix = server_prefix(server)
    assert "__" not in prefix
    assert not prefix.endswith("_")
    assert tool_name(server, "_x").partition("__")[0] == prefix
