"""``pentad serve SERVICE``: one service in this process."""

import argparse

from pentad.shared.service.options import Options
from pentad.shared.service.run import serve_one
from pentad.shared.settings import Settings
from pentad.system.composition import composition_root


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run until told to end; returns the exit code."""
    return serve_one(args.service, composition_root(args.service), settings, Options.of(args))
