"""``pentad serve SERVICE``: one service in this process."""

import argparse
from importlib import import_module
from typing import cast

from pentad.contracts.streams import Service
from pentad.shared.service.options import Options
from pentad.shared.service.run import Build, serve_one
from pentad.shared.settings import Settings


def composition_root(service: Service) -> Build:
    """``build`` of ``services.NAME.app``."""
    return cast(Build, import_module(f"pentad.services.{service.replace('-', '_')}.app").build)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run until told to end; returns the exit code."""
    return serve_one(args.service, composition_root(args.service), settings, Options.of(args))
