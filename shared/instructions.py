"""What can be run: named instructions. The full registry is data that comes later; the executor is built in."""

from collections.abc import Mapping
from types import MappingProxyType

from pentad.contracts.envelope import Contract


class Instruction(Contract):
    """A system prompt under a name."""

    name: str
    system_prompt: str


EXECUTOR = Instruction(
    name="executor",
    system_prompt=(
        "You are a helpful assistant. Use the tools you are given when they help, several at once when they do not "
        "depend on each other. When a tool reports an error, say so or try another way. Answer in the user's language."
    ),
)

INSTRUCTIONS: Mapping[str, Instruction] = MappingProxyType({EXECUTOR.name: EXECUTOR})
