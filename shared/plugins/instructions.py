"""The ``instruction`` decorator and the instructions of this process."""

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pentad.contracts.instructions import CallForm, Instruction, MessagePolicy, RecallMode
from pentad.shared.plugins.docstrings import parse_docstring
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.runnables import defined_runnables, register_runnable

F = TypeVar("F", bound=Callable[[], str])
Output = type[BaseModel] | Mapping[str, Any]
"""A pydantic model, or a JSON schema."""


def instruction(
    *,
    name: str | None = None,
    tools: Sequence[str] | None = None,
    model: str | None = None,
    output: Output | None = None,
    repairs: int = 3,
    tool_rounds: int | None = 5,
    on_message: MessagePolicy = "steer",
    recall: RecallMode | None = None,
    share: bool = False,
    temperature: float | None = None,
    max_tokens: int | None = None,
    retry: int | None = None,
    calls: CallForm = "native",
    max_messages: int | None = None,
    tool_schema_tokens: int | None = None,
) -> Callable[[F], F]:
    """Makes an instruction of a function that returns its system prompt; its docstring describes it.

    ``name`` is the function's when missing. ``tools`` are the names of those that it may call: all when missing.
    ``model`` is the id of the model that answers: the default one when missing. With ``output``, a pydantic model or a
    JSON schema, the answer is one JSON value that fits it; a wrong one is asked for again ``repairs`` times.
    ``tool_rounds`` is how often a turn may call tools; None: up to the step limit. ``on_message`` says what
    a message does that comes during a turn: ``steer``, ``queue`` or ``interrupt``. ``recall``: whether a task
    begins with what long-term memory has about it, or, with ``turn``, each of its turns does; when missing, a task
    without ``output`` does. ``share``: whether what is said
    to its tasks without a user is remembered for the whole tenant, not for its session alone. ``temperature`` and
    ``max_tokens`` go before those of the model; ``retry`` is how often it is asked for one step. ``calls`` is the form
    of its calls: ``native``, ``text`` or ``auto``. ``max_messages`` is how much of a conversation prompts have at most,
    and ``tool_schema_tokens`` what the schemas of tools may cost in them. The prompt may name ``{{user_id}}`` and what
    else `pentad.contracts.instructions` lists. Raises ``PluginError`` for what cannot be an instruction.
    """

    def register(function: F) -> F:
        if not isinstance(function, FunctionType) or function.__code__.co_argcount:
            raise PluginError("@instruction takes a function without parameters that returns the system prompt")
        fields: dict[str, Any] = {
            "name": name or function.__name__,
            "description": parse_docstring(function.__doc__).description,
            "system_prompt": function(),
            "tools": tools,
            "model": model,
            "repairs": repairs,
            "tool_rounds": tool_rounds,
            "on_message": on_message,
            "recall": recall,
            "share": share,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "retry": retry,
            "calls": calls,
            "max_messages": max_messages,
            "tool_schema_tokens": tool_schema_tokens,
        }
        if output is not None:
            fields |= {"output": "json", "output_schema": _schema(output)}
        register_runnable(_made(fields), f"{function.__module__}.{function.__qualname__}")
        return function

    return register


def registered_instructions() -> Mapping[str, Instruction]:
    """Return the instructions that the modules imported so far have defined, by name."""
    return MappingProxyType({name: made for name, made in defined_runnables().items() if isinstance(made, Instruction)})


def _schema(output: Output) -> dict[str, Any]:
    if isinstance(output, type) and issubclass(output, BaseModel):
        return output.model_json_schema()
    if isinstance(output, Mapping):
        return dict(output)
    raise PluginError("@instruction(output=...) takes a pydantic model or a JSON schema")


def _made(fields: Mapping[str, Any]) -> Instruction:
    try:
        return Instruction.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise PluginError(f"instruction {fields['name']!r}: {f'{where}: {problem}' if where else problem}") from None
