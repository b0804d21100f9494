"""Values that never change, as cheap to make as those that may."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def immutable(cls: type[T]) -> type[T]:
    """A dataclass with slots whose fields the type checker keeps from being set.

    ``dataclass(frozen=True)`` does the same at run time, and its instances cost four times as much to make. It is for
    what plug-ins get into their hands; this is for what each message makes.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
