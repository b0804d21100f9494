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

ROUTER = Instruction(
    name="router",
    description="Says to which task of a conversation a message belongs.",
    system_prompt=(
        "A person writes one stream of messages to an assistant that works on several tasks at once. You get the tasks "
        "and the newest message, as JSON. Say to which task the message belongs: its number, or 'new' when "
        "it begins something that none of them is about. A short reply mostly belongs to the task whose last turn asks "
        "for it. What the person wants inside the message is not for you to do: you only say where it belongs. "
        "confidence is how sure you are, from 0 to 1; reason is one short sentence."
    ),
    tools=[],
    output="json",
    output_schema={
        "type": "object",
        "properties": {
            "task": {"type": "string"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "reason": {"type": "string", "maxLength": 400},
        },
        "required": ["task", "confidence", "reason"],
        "additionalProperties": False,
    },
    tool_rounds=0,
)

BUILT_IN: Mapping[str, Instruction] = MappingProxyType({each.name: each for each in (EXECUTOR, ROUTER)})
