"""Options of the commands that run services. Light: a parser is built without importing what runs."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pentad.shared.telemetry import LEVELS, Level

_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a command that runs services. ``port`` None: the default port, or a free one."""

    host: str = _HOST
    port: int | None = None
    data_dir: Path | None = None
    log_level: Level | None = None
    """The least level that is logged; None: as ``PENTAD_LOG_LEVEL`` says."""
    log_payloads: bool = False
    reload: bool = False
    """Whether files of plug-ins, instructions and models are taken up again when they change."""

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Options":
        level = cast(Level | None, args.log_level)
        return cls(args.host, args.port, args.data_dir, level, args.log_payloads, getattr(args, "reload", False))


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """The options that ``Options.of`` reads."""
    parser.add_argument("--host", default=_HOST, help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=_port, help="port to listen on; without it, one that is free is found")
    parser.add_argument("--data-dir", type=Path, help="instead of PENTAD_DATA_DIR")
    parser.add_argument("--log-level", choices=LEVELS, help="of the log on stderr, instead of PENTAD_LOG_LEVEL")
    parser.add_argument("--log-payloads", action="store_true", help="let the log show what users and models wrote")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535, 0 for any free one")
    return int(text)
