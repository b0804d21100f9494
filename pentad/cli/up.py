"""``pentad up``: the whole system as a process of its own."""

import argparse

from pentad.shared.embedded.data_dir import DataDirLock
from pentad.shared.embedded.operator_key import with_operator_key
from pentad.shared.service.options import Options
from pentad.shared.service.process import run_loop
from pentad.shared.service.run import require_keys
from pentad.shared.settings import Settings
from pentad.shared.telemetry import configure_logging
from pentad.system.composition import Roots, run_all


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run until told to end; returns the exit code."""
    return run_system(settings, Options.of(args))


def run_system(settings: Settings, options: Options, roots: Roots | None = None) -> int:
    """The whole system until it is told to end. Raises ``PentadError`` when it cannot start or a part dies."""
    level, form = options.log_level or settings.pentad_log_level, settings.pentad_log_format
    configure_logging(level, payloads=options.log_payloads, form=form)
    require_keys(settings, options.host)
    with DataDirLock(settings.pentad_data_dir):
        kept = with_operator_key(settings)
        return run_loop(lambda stop: run_all(kept, options, stop, roots=roots))
