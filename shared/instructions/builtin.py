"""The instructions that are always there."""

from collections.abc import Mapping
from types import MappingProxyType

from pentad.contracts.instructions import Instruction

EXECUTOR = Instruction(
    name="executor",
    description="Answers, and uses every tool that there is.",
    system_prompt=(
        "You are a helpful assistant. Use the tools you are given when they help, several at once when they do not "
        "depend on each other. When a tool reports an error, say so or try another way. Answer in the user's language."
    ),
    tool_rounds=None,
)

BUILT_IN: Mapping[str, Instruction] = MappingProxyType({EXECUTOR.name: EXECUTOR})
