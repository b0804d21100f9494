"""A task's prompts, rebuilt from its record alone."""

from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.records import Manifest, TaskRecord, TranscriptMeta
from pentad.services.task_runner.prompt import chain
from pentad.shared.actors.transcript import remaining
from pentad.shared.models.call_ids import with_sent_ids
from pentad.shared.models.thoughts import kind_of, openai_messages


@dataclass(frozen=True)
class Prompt:
    """What one step sent to its model, and the digest that follows from it."""

    manifest: Manifest
    messages: list[dict[str, Any]]
    tools: Any
    digest: str

    def as_sent(self, model: str) -> Any:
        """The messages as a model of this name is sent them in OpenAI's protocol: with its own ids of calls."""
        lines = with_sent_ids([to_json(message) for message in self.messages], kind_of("openai", model), "given")
        return from_json(b"[%s]" % openai_messages(lines, model, filled=False))


def prompts_of(record: TaskRecord) -> list[Prompt]:
    """The prompt of every step; each digest is chained on the one before."""
    rebuilt: list[Prompt] = []
    digest, covered = "", 0
    chat = [chat_form(message) for message in record.messages]
    for step in record.steps:
        manifest = step.manifest
        instruction = Instruction.model_validate(record.materials[f"instruction:{manifest.instruction_version}"])
        system = {
            "role": "system",
            "content": instruction.system_prompt + (manifest.today.told if manifest.today else ""),
        }
        end = manifest.messages[1]
        added = [to_json(message) for message in chat[covered:end]]
        digest, covered = chain(digest, added, to_json(system), manifest.tools, manifest.model), end
        tools = record.materials[f"tools:{manifest.tools}"] if manifest.tools else None
        rebuilt.append(Prompt(manifest, [system, *remaining(chat[:end])], tools, digest))
    return rebuilt


def chat_form(message: dict[str, Any]) -> dict[str, Any]:
    """A recorded message without what we know beside it."""
    return {name: value for name, value in message.items() if name not in TranscriptMeta.model_fields}
