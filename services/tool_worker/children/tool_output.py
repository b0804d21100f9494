"""Turns what tools print and log in a child into lines of the log, each with its time, task and call."""

import io
import json
import logging
import re
import sys
import threading
import time
import traceback
from contextvars import Context, ContextVar, copy_context
from typing import TextIO

from pentad.shared.plugins.context import ToolContext
from pentad.shared.telemetry import LogForm

_MAX_LINE = 8_192
"""Characters of a line; what is longer is cut into several."""
_MAX_CALLS = 10_000
_speaker: ContextVar[str] = ContextVar("speaker", default="")
"""Which call's code runs here."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def output_context(tool: str, context: ToolContext) -> Context:
    """A context for the code of one call: what it prints and logs is known as its own."""
    own = copy_context()
    own.run(_speaker.set, f"{tool} [{context.task_id} {context.tool_call_id}]: ")
    return own


def redirect_output(level: int, form: LogForm = "console") -> None:
    """Send what is printed and logged in this process to standard error, as lines of the log."""
    out = sys.stderr
    handler = logging.StreamHandler(out)
    handler.setFormatter(ToolLogJson() if form == "json" else ToolLogLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    printed = logging.getLogger("printed")
    printed.setLevel(logging.INFO)
    sys.stdout = LoggedOutput(printed, logging.INFO, sys.stdout)
    sys.stderr = LoggedOutput(printed, logging.WARNING, out)


class ToolLogLine(logging.Formatter):
    """``TIME LEVEL NAME: TOOL [TASK CALL]: TEXT`` in front of each line, of a traceback too."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_at(record)} {record.levelname} {record.name}: {_speaker.get()}"
        lines = record.getMessage().splitlines() or [""]
        if record.exc_info and record.exc_info[0] is not None:
            lines += [line for part in traceback.format_exception(*record.exc_info) for line in part.splitlines()]
        return "\n".join(head + _CONTROL.sub("", line) for line in lines)


class ToolLogJson(logging.Formatter):
    """A log record as a JSON object, with the tool and call under ``by`` and the traceback under ``error``."""

    def format(self, record: logging.LogRecord) -> str:
        said = {"at": _at(record), "level": record.levelname.lower(), "logger": record.name}
        said |= {"by": _speaker.get().removesuffix(": "), "message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            said["error"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(said, ensure_ascii=False)


def _at(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


class LoggedOutput(io.TextIOBase):
    """Stands where a standard stream was: whole lines go to the log, each speaker's apart."""

    def __init__(self, log: logging.Logger, level: int, stream: TextIO) -> None:
        self._log, self._level, self._stream = log, level, stream
        self._begun: dict[str, str] = {}
        self._lock = threading.RLock()
        self.buffer = stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        with self._lock:
            speaker = _speaker.get()
            *lines, rest = (self._begun.pop(speaker, "") + text).split("\n")
            while len(rest) > _MAX_LINE:
                lines.append(rest[:_MAX_LINE])
                rest = rest[_MAX_LINE:]
            if rest:
                self._keep(speaker, rest)
        for line in lines:
            whole = line.removesuffix("\r")
            for at in range(0, len(whole) or 1, _MAX_LINE):
                self._log.log(self._level, "%s", whole[at : at + _MAX_LINE])
        return len(text)

    def flush(self) -> None:
        """Only whole lines are written; what a call has begun is written with its end."""
        self._stream.flush()

    def finish(self) -> None:
        """The speaker has ended: its last line is whole."""
        with self._lock:
            rest = self._begun.pop(_speaker.get(), "")
        if rest:
            self._log.log(self._level, "%s", rest)

    def _keep(self, speaker: str, rest: str) -> None:
        if len(self._begun) >= _MAX_CALLS:
            self._begun.clear()
        self._begun[speaker] = rest


def flush_call_output() -> None:
    """Write the unfinished last line of the call whose code ran here."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, LoggedOutput):
            stream.finish()
