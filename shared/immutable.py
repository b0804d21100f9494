"""Values that never change, as cheap to make as those that may."""

from dataclasses import dataclass, field, fields
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def immutable(cls: type[T]) -> type[T]:
    """A dataclass with slots whose fields the type checker keeps from being set.

    ``dataclass(frozen=True)`` does the same at run time, and its instances cost four times as much to make. It is for
    what plug-ins get into their hands; this is for what each message makes.
    """
    if "__repr__" not in vars(cls):
        cls.__repr__ = _shown  # type: ignore[method-assign]  # each class's own would be compiled at every start
    return dataclass(slots=True, unsafe_hash=True, repr=False)(cls)


@recursive_repr()
def _shown(value: Any) -> str:
    """Return the text by which a value is shown, the same as that of any dataclass."""
    shown = (f"{f.name}={getattr(value, f.name)!r}" for f in fields(value) if f.repr)
    return f"{type(value).__qualname__}({', '.join(shown)})"
