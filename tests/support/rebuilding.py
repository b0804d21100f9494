"""A task's prompts, rebuilt from its record alone."""

from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.records import StepPrompt, TaskRecord
from pentad.shared.actors import transcript
from pentad.shared.actors.step_prompt import rebuild
from pentad.shared.models.call_ids import with_sent_ids
from pentad.shared.models.thoughts import kind_of, openai_messages


def prompts_of(record: TaskRecord) -> list[StepPrompt]:
    """The prompt of every step, each proved by the digest in its manifest."""
    rebuilt = [rebuild(record, step.step) for step in record.steps]
    prompts = [prompt for prompt in rebuilt if prompt is not None]
    assert len(prompts) == len(record.steps)
    assert all(prompt.proved for prompt in prompts), [prompt.step for prompt in prompts if not prompt.proved]
    return prompts


def as_sent(prompt: StepPrompt, model: str) -> Any:
    """The messages as a model of this name is sent them in OpenAI's protocol: with its own ids of calls."""
    lines = with_sent_ids([to_json(message) for message in prompt.messages], kind_of("openai", model), "given")
    return from_json(b"[%s]" % openai_messages(lines, model, filled=False))


def chat_form(message: dict[str, Any]) -> dict[str, Any]:
    """A recorded message without what we know beside it."""
    form: dict[str, Any] = from_json(transcript.chat_form(message))
    return form
