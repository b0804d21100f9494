"""What a model would miss of a tool is told to who starts it."""

from typing import Any, Literal

import pytest

from pentad.contracts.tools import ToolSpec
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import description_gaps
from pentad.shared.plugins.registry import registered_tools, tool


def spec_of(function: Any) -> ToolSpec:
    tool(name="doubted")(function)
    return registered_tools()["doubted"].spec


def undocumented(a: int) -> int:
    return a


def untyped(a, b: int = 1) -> str:  # type: ignore[no-untyped-def]
    """Has a docstring."""
    return f"{a}{b}"


def fine(a: int, b: list[str] | None, c: Literal["x"], d: dict[str, Any], ctx: ToolContext) -> str:
    """Has a docstring."""
    return ""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (undocumented, ["tool 'doubted' has no docstring: the model is told no more of it than its name"]),
        (untyped, ["tool 'doubted': parameter 'a' has no type: the model may send anything for it"]),
        (fine, []),
    ],
)
def test_what_is_missing_is_named(function: Any, said: list[str], request: pytest.FixtureRequest) -> None:
    from pentad.shared.plugins import registry

    request.addfinalizer(lambda: registry._tools.pop("doubted", None))
    assert list(description_gaps(spec_of(function))) == said
