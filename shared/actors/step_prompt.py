"""The prompt of one step, rebuilt from its task's record and proved by the digest of the step's manifest. Pure.

Each digest is chained on that of the step before, as prompts are: each begins as the one before it ended.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.contracts.hooks import PromptSplice
from pentad.contracts.instructions import Instruction
from pentad.contracts.records import Manifest, PromptImage, StepPrompt, StepRecord, TaskRecord
from pentad.shared.actors.compaction import asks_for_summary
from pentad.shared.actors.opening import goal_of
from pentad.shared.actors.transcript import chat_form, placed, prompt_of, replaced, replacements_in
from pentad.shared.attached_files import with_files
from pentad.shared.errors import DamagedError
from pentad.shared.instructions.instruction_list import graph_kept_under, kept_under
from pentad.shared.instructions.system_prompt import PromptValues, system_message
from pentad.shared.text_protocol.request import as_text, with_protocol


def chain(digest: str, added: Iterable[bytes], system: bytes, tools: str, model: str) -> str:
    """The digest of a prompt: chained on the step before, so that its cost is what the step adds."""
    parts = [digest.encode()]
    for part in (system, tools.encode(), model.encode(), *added):
        parts += (len(part).to_bytes(8, "big"), part)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def with_images(added: Sequence[bytes], images: Sequence[PromptImage] | None) -> Sequence[bytes]:
    """Return what a step adds to the digest of its prompt: messages, and the images that it was sent, by digest."""
    return [*added, to_json(list(images))] if images else added


def spliced(prompt: Sequence[bytes], splices: Sequence[PromptSplice]) -> Sequence[bytes]:
    """Return a prompt with what a hook put in the place of some of its messages. Raises ``DamagedError``."""
    made: list[bytes] = []
    at = 0
    for splice in splices:
        if not at <= splice.start <= splice.end <= len(prompt):
            raise DamagedError(f"a hook's change of messages {splice.start} to {splice.end} is none of this prompt")
        made += [*prompt[at : splice.start], *(message.encode() for message in splice.messages)]
        at = splice.end
    return [*made, *prompt[at:]]


def hooked_digest(prompt: Sequence[bytes]) -> str:
    """Return the digest of a prompt that hooks have made."""
    return hashlib.sha256(b"\n".join(prompt)).hexdigest()


def tools_kept_under(digest: str) -> str:
    """The name of a set of tool schemas among a task's large values, and in its record."""
    return f"tools:{digest}"


def materials_of(steps: Iterable[StepRecord]) -> set[str]:
    """The names of what the manifests of these steps name by digest."""
    manifests = [step.manifest for step in steps]
    versions = {kept_under(each.instruction_version) for each in manifests if each.instruction_version}
    versions |= {graph_kept_under(each.graph_version) for each in manifests if each.graph_version}
    return versions | {tools_kept_under(each.tools) for each in manifests if each.tools}


def rebuild(record: TaskRecord, step: int) -> StepPrompt | None:
    """The request of this step, or None where the task has no such step.

    ``record``: of a finished task, or made so of a live one. It is whole up to this step: messages, steps, and what
    their manifests name. Raises ``DamagedError`` for a record that lacks some of it.
    """
    chat = [chat_form(message) for message in record.messages]
    digest, covered = "", 0
    for kept in record.steps:
        manifest = kept.manifest
        end = manifest.messages[1]
        if end > len(chat):
            raise DamagedError(f"task {record.task.task_id} has lost messages: step {kept.step} had {end}")
        instruction = _instruction(record, manifest.instruction_version)
        tools = _material(record, tools_kept_under(manifest.tools)) if manifest.tools else None
        system = system_message(instruction, _values(record, chat[:end], manifest), manifest.today)
        if manifest.text_calls:
            system = with_protocol(system, to_json(tools) if tools is not None else None)
        added = with_images(chat[covered:end], manifest.images)
        digest, covered = chain(digest, added, system, manifest.tools, manifest.model), end
        if kept.step == step:
            prompt = _conversation(chat[:end], manifest)
            asked: Sequence[bytes] = [system, *prompt]
            hooked = manifest.hooks.prompt if manifest.hooks is not None else None
            if hooked is not None:
                for splices in hooked.splices:
                    asked = spliced(asked, splices)
            proved = digest == manifest.digest and (hooked is None or hooked_digest(asked) == hooked.digest)
            return _shown(record, kept, instruction, as_text(asked) if manifest.text_calls else asked, proved=proved)
    return None


def _conversation(chat: Sequence[bytes], manifest: Manifest) -> Sequence[bytes]:
    """The messages of a step's prompt behind the system message. ``chat``: the transcript that the step had."""
    replacements = replacements_in(chat)
    if manifest.compacts is None:
        return prompt_of(chat, replacements)
    positions = frozenset(manifest.compacts)
    return [asks_for_summary([each for each in placed(chat, replacements) if each[0] in positions])]


def _shown(
    record: TaskRecord, kept: StepRecord, instruction: Instruction, prompt: Sequence[bytes], *, proved: bool
) -> StepPrompt:
    manifest = kept.manifest
    return StepPrompt(
        task_id=record.task.task_id,
        step=kept.step,
        at=kept.at,
        instruction=manifest.instruction,
        instruction_version=manifest.instruction_version,
        model=manifest.model,
        model_id=manifest.model_id,
        messages=[from_json(line) for line in with_files(prompt, _images(manifest))],
        tools=_material(record, tools_kept_under(manifest.tools))
        if manifest.tools and not manifest.text_calls
        else None,
        tool_choice=manifest.tool_choice,
        answer_schema=instruction.output_schema if manifest.told_schema else None,
        temperature=instruction.temperature,
        max_tokens=instruction.max_tokens,
        digest=manifest.digest,
        proved=proved,
    )


def _images(manifest: Manifest) -> dict[str, str]:
    """The images of a prompt by path, each named by its digest in place of its bytes."""
    return {image.path: image.digest for image in manifest.images or ()}


def _values(record: TaskRecord, messages: Sequence[bytes], manifest: Manifest) -> PromptValues:
    """Return the values that the system prompt could name at that step.

    The goal is the first message that the step had of its task: another one after the first was moved away.
    """
    task = record.task
    gone = replaced(replacements_in(messages))
    said = (
        str(message.get("content"))
        for n, message in enumerate(record.messages[: len(messages)])
        if message.get("role") == "user" and message.get("origin") is None and n not in gone
    )
    goal = next((goal_of(text) for text in said), task.goal)
    user, variables, now = task.user_id or "", manifest.variables or {}, manifest.now or ""
    session, begun, state = task.session_id, task.created_at, manifest.state or {}
    if task.forked_from is not None:
        session, begun = task.forked_from.named_session_id, task.forked_from.named_started_at
    return PromptValues(goal, session, begun, record.tenant_id, user, variables, now, state)


def _instruction(record: TaskRecord, version: str | None) -> Instruction:
    try:
        return Instruction.model_validate(_material(record, kept_under(version or "")))
    except ValidationError:
        raise DamagedError(f"the instruction of task {record.task.task_id} cannot be read") from None


def _material(record: TaskRecord, name: str) -> Any:
    if name not in record.materials:
        raise DamagedError(f"task {record.task.task_id} has lost what its steps name as {name}")
    return record.materials[name]
