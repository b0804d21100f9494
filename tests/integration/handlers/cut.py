"""An operation from outside that is cut off between two of its commands."""

from contextvars import ContextVar
from typing import Any

from pentad.shared.errors import OutageError
from pentad.shared.store.store import Store

_within_command: ContextVar[bool] = ContextVar("within_command", default=False)


class Cut:
    """A store whose connection goes at the n-th command, before it is carried out or after."""

    def __init__(self, store: Store, at: int, after: bool) -> None:
        self._store, self._left, self._after = store, at, after
        self._real: dict[str, Any] = {"run": store.run, "call": store.call}

    @property
    def done(self) -> bool:
        return self._left <= 0

    def __enter__(self) -> None:
        for name in self._real:
            setattr(self._store, name, self._through(name))

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(self._store, name, real)

    def _through(self, name: str) -> Any:
        async def command(*args: Any, **more: Any) -> Any:
            if _within_command.get():  # a script that this Redis does not know yet is sent by two commands
                return await self._real[name](*args, **more)
            _within_command.set(True)
            try:
                return await counted(*args, **more)
            finally:
                _within_command.set(False)

        async def counted(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise OutageError("killed before")
            reply = await self._real[name](*args, **more)
            if self._left == 0:
                raise OutageError("killed after")
            return reply

        return command
