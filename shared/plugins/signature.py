"""Makes a pydantic model and a JSON schema of the arguments in a function's signature."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from pentad.shared.plugins.arguments import SignatureArguments, ToolArguments
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.explicit_schema import accepted_by, arguments_of_schema

_KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only: remove the '/' from the signature",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values: use a list parameter instead",
    inspect.Parameter.VAR_KEYWORD: "takes any names: use a dict parameter instead",
}


class _Untitled(GenerateJsonSchema):
    """A generator of schemas without titles, which only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def read_arguments(
    tool: str,
    function: Callable[..., Any],
    docs: Mapping[str, str],
    parameters: Mapping[str, Any] | None = None,
    skipped: int = 0,
) -> tuple[ToolArguments, tuple[str, ...]]:
    """Return the arguments of ``function``, described by ``docs``, and the parameters that take the ``ToolContext``.

    ``parameters``: a JSON schema of the arguments, in place of the types. ``skipped``: first parameters that are no
    arguments. Raises ``PluginError``.
    """
    if parameters is not None:
        context = tuple(_context_parameters(tool, function, skipped))
        return arguments_of_schema(tool, parameters, accepted_by(tool, function, context, skipped)), context
    hinted = list(_hinted(tool, function, skipped))
    context = tuple(parameter.name for parameter, hint in hinted if _is_context(hint))
    told = [(parameter, hint) for parameter, hint in hinted if parameter.name not in context]
    fields = {f"p{number}": parameter.name for number, (parameter, _) in enumerate(told)}
    definitions = {
        name: (hint, _field(parameter, hint, docs)) for (parameter, hint), name in zip(told, fields, strict=True)
    }
    model, schema = _model(tool, definitions, fields)
    return SignatureArguments(tool, model, fields, schema), context


def _context_parameters(tool: str, function: Callable[..., Any], skipped: int) -> Iterator[str]:
    """Yield the parameters that take the context; no other type is looked at."""
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    for parameter in list(_signature(tool, function).parameters.values())[skipped:]:
        if ToolContext.__name__ in str(parameter.annotation) and _is_context(_hint(tool, parameter, namespace)):
            yield parameter.name


def _hinted(tool: str, function: Callable[..., Any], skipped: int) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Yield each parameter with its type, forward references resolved."""
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    for parameter in list(_signature(tool, function).parameters.values())[skipped:]:
        problem = _KINDS.get(parameter.kind)
        if problem:
            raise PluginError(f"tool {tool!r}: parameter '{parameter}' {problem}")
        if isinstance(parameter.default, FieldInfo):
            raise PluginError(
                f"tool {tool!r}: parameter {parameter.name!r} has Field(...) as its default: "
                "write it as Annotated[TYPE, Field(...)] = DEFAULT"
            )
        yield parameter, _hint(tool, parameter, namespace)


def _signature(tool: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError, NameError) as error:
        raise PluginError(f"tool {tool!r}: its signature cannot be read: {error}") from error


def _hint(tool: str, parameter: inspect.Parameter, namespace: dict[str, Any]) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    holder: Any = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return get_type_hints(holder, globalns=namespace, include_extras=True)[parameter.name]
    except Exception as error:  # an annotation is code: it may raise anything
        raise PluginError(
            f"tool {tool!r}: the annotation of parameter {parameter.name!r} cannot be resolved ({error}): "
            "import or define the type at the top level of the module, not under TYPE_CHECKING"
        ) from error


def _is_context(hint: Any) -> bool:
    if get_origin(hint) in (Annotated, Union, UnionType):
        return any(_is_context(part) for part in get_args(hint))
    return hint is ToolContext


def _field(parameter: inspect.Parameter, hint: Any, docs: Mapping[str, str]) -> Any:
    """Return the pydantic field: only passed arguments reach the function, so that its own defaults apply."""
    description = FieldInfo.from_annotation(hint).description or docs.get(parameter.name)
    if parameter.default is inspect.Parameter.empty:
        return Field(alias=parameter.name, description=description)
    return Field(
        alias=parameter.name,
        description=description,
        default_factory=lambda: None,
        json_schema_extra=_shown_default(parameter.default),
    )


def _shown_default(default: Any) -> dict[str, Any]:
    try:
        shown = to_jsonable_python(default)
        json.dumps(shown, allow_nan=False)
    except Exception:  # a default that is not JSON is simply not shown
        return {}
    return {"default": shown}


def _model(tool: str, definitions: dict[str, Any], fields: Mapping[str, str]) -> tuple[type[BaseModel], dict[str, Any]]:
    config = ConfigDict(extra="forbid", protected_namespaces=())
    try:
        model: type[BaseModel] = create_model("Arguments", __config__=config, **definitions)
        schema = model.model_json_schema(schema_generator=_Untitled)
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
        raise PluginError(_blame(tool, definitions, fields, error)) from error
    schema.pop("title", None)
    try:
        json.dumps(schema, allow_nan=False)
    except ValueError:
        raise PluginError(
            f"tool {tool!r}: its schema holds NaN or Infinity, which JSON has not: leave it out"
        ) from None
    return model, schema if "properties" in schema else {"type": "object", "properties": {}} | schema


def _blame(tool: str, definitions: dict[str, Any], fields: Mapping[str, str], error: Exception) -> str:
    """Return the error that names the parameter whose type no schema can describe."""
    guilty = [fields[name] for name, (hint, _) in definitions.items() if not _describable(hint)]
    named = f"the type of parameter {guilty[0]!r}" if guilty else "its signature"
    reason = str(error).splitlines()[0]
    return (
        f"tool {tool!r}: {named} cannot be described to a model ({reason}): use JSON types, enums, Literal, "
        "dates, dataclasses, TypedDict or pydantic models"
    )


def _describable(hint: Any) -> bool:
    try:
        TypeAdapter(hint).json_schema()
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError):
        return False
    return True
