"""Logging: one line per record, to stderr.

Modules log by ``logging.getLogger(__name__)``. What users and models wrote goes through ``payload``, which shows its
size alone unless the person who runs the process opted in.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Literal

from pydantic import ValidationError

from pentad.shared.clipping import clip, plain, said_by
from pentad.shared.errors import SettingsError

Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
_ROOT_LOGGER = "pentad"
LogForm = Literal["console", "json"]
_MAX_LINE_CHARS = 16_384
"""Characters that a log line may have."""
_show_payloads = False
_form: LogForm = "console"


def configure_logging(level: Level = "info", *, payloads: bool = False, form: LogForm = "console") -> None:
    """Set up this process's logging; a second call replaces the first.

    ``level`` holds for Pentad's own records; of libraries only WARNING and above is shown. ``payloads`` True lets the
    log show what users, models and tools wrote: a choice of the person who runs it, for a while. ``form``: lines to be
    read, or a JSON object a line.
    """
    global _show_payloads, _form
    _show_payloads, _form = payloads, form
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if form == "json" else OneLine())
    logging.basicConfig(level=max(logging.WARNING, _number(level)), handlers=[handler], force=True)
    logging.getLogger(_ROOT_LOGGER).setLevel(_number(level))


class _Passing(logging.Handler):
    """Hands Pentad's records to a logger of the program that runs it."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        if self._logger.isEnabledFor(record.levelno):
            self._logger.handle(record)


_passing: list[_Passing] = []
_before: tuple[int, bool] = (logging.NOTSET, True)
"""Level of Pentad's own logger, and whether its records went on to the root logger, before any were passed on."""


@contextmanager
def logging_to(logger: Any) -> Iterator[None]:
    """Hand all records of Pentad in this process to a logger, in place of the root logger; None changes nothing.

    Its level says which. Raises ``SettingsError`` for one that Pentad's own records would come back from.
    """
    global _before
    if logger is None:
        yield
        return
    ours = logging.getLogger(_ROOT_LOGGER)
    if not isinstance(logger, logging.Logger):
        kind = type(logger).__name__
        raise SettingsError(f"pentad.start(logger=...) is wrong: it must be a logging.Logger, not {kind}")
    if logger.name == _ROOT_LOGGER or logger.name.startswith(f"{_ROOT_LOGGER}."):
        raise SettingsError(
            f"pentad.start(logger=...) is wrong: {logger.name!r} is Pentad's own logger: give one of your program's, "
            "like logging.getLogger('my_program')"
        )
    handler = _Passing(logger)
    if not _passing:
        _before = ours.level, ours.propagate
    _passing.append(handler)
    ours.addHandler(handler)
    ours.propagate = False
    ours.setLevel(min(each._logger.getEffectiveLevel() for each in _passing))
    try:
        yield
    finally:
        ours.removeHandler(handler)
        _passing.remove(handler)
        if not _passing:
            level, ours.propagate = _before
            ours.setLevel(level)


def _number(level: Level) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


class OneLine(logging.Formatter):
    """``TIME LEVEL NAME: TEXT``; an exception is its type, text and place, and a line break a space."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record), _MAX_LINE_CHARS)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the base class's name
        kind, error, trace = ei
        return f"[{kind.__name__}: {_text(error)}{_place(trace)}]" if kind is not None else ""


def _text(error: Any) -> str:
    # Pydantic repeats the value that did not fit, which is somebody's message.
    if not isinstance(error, ValidationError) or _show_payloads:
        return said_by(error)
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))


def _place(trace: Any) -> str:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""


class JsonLine(OneLine):
    """Formats a record as a JSON object with ``at level logger message``, and ``error`` for an exception."""

    def format(self, record: logging.LogRecord) -> str:
        error = (self.formatException(record.exc_info) if record.exc_info else record.exc_text or "").strip("[]")
        said = {
            "at": f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clip(record.getMessage(), _MAX_LINE_CHARS),
        }
        return json.dumps(said | ({"error": error} if error else {}), ensure_ascii=False)


def chosen_form() -> LogForm:
    """The form that this process's log has."""
    return _form


def passing_log() -> tuple[int, bool]:
    """Return what a process needs whose log goes to this one's: the least level, and whether payloads are shown."""
    return logging.getLogger(_ROOT_LOGGER).getEffectiveLevel(), _show_payloads


def pass_log_on(level: int, payloads: bool, send: Callable[[dict[str, Any]], None]) -> None:
    """Send the records of this process to another's log instead of standard error. ``send`` is called in any thread."""
    global _show_payloads
    _show_payloads = payloads
    logging.basicConfig(level=max(logging.WARNING, level), handlers=[_RecordSender(send)], force=True)
    logging.getLogger(_ROOT_LOGGER).setLevel(level)


def log_passed(told: Mapping[str, Any]) -> None:
    """Log a record that another process has sent, by the logger of its name."""
    record = logging.makeLogRecord(dict(told))
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


_PASSED = (
    "name", "levelno", "levelname", "pathname", "filename", "module", "lineno", "funcName", "created", "msecs",
    "thread", "threadName", "process", "processName",
)  # fmt: skip
"""Attributes of a record that are passed on as they are."""


class _RecordSender(logging.Handler):
    """Sends each record with its text, and with the line of its exception."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._send, self._form = send, OneLine()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            told = {name: getattr(record, name) for name in _PASSED}
            error = self._form.formatException(record.exc_info) if record.exc_info else ""
            texts = {"msg": clip(record.getMessage(), _MAX_LINE_CHARS), "exc_text": clip(error, _MAX_LINE_CHARS)}
            self._send(told | texts)
        except Exception:
            self.handleError(record)


class payload:  # noqa: N801 - reads as a function where it is used: log.info("refused %s", payload(text))
    """Stands for a value in a log line: its type and size, or after the opt-in itself. Cheap when not logged."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        if _show_payloads:
            return repr(self._value)
        size = f" of {len(self._value)}" if hasattr(self._value, "__len__") else ""
        return f"<{type(self._value).__name__}{size}>"


THROTTLE_S = 10.0
"""Seconds for which a further line of the same kind is left out of the log."""
_MAX_KINDS = 1000
"""Kinds of lines that one throttled log remembers."""


class ThrottledLog:
    """Passes on the first line of each kind, then one every ten seconds, which says how many were left out."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[str, tuple[float, int]] = {}

    def warning(
        self, kind: str, line: str, *args: object, level: int = logging.WARNING, exc: BaseException | None = None
    ) -> None:
        """Write a line unless one of its kind was written lately."""
        at, left_out = self._said.get(kind, (float("-inf"), 0))
        now = monotonic()
        if now - at < THROTTLE_S:
            self._said[kind] = (at, left_out + 1)
            return
        if len(self._said) >= _MAX_KINDS:
            self._said.clear()
        self._said[kind] = (now, 0)
        if left_out:
            line += f" ({left_out} more like this since the last)"
        self._log.log(level, line, *args, exc_info=exc)

    def error(self, kind: str, line: str, *args: object, exc: BaseException | None = None) -> None:
        """Write a line as `warning` does, at level ERROR."""
        self.warning(kind, line, *args, level=logging.ERROR, exc=exc)
