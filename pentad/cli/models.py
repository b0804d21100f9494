"""``pentad models``: which models there are, and how each does."""

import argparse
import json
from typing import Any

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import Style, fitted, style_for, table
from pentad.shared.settings import Settings

_HEADER = ("MODEL", "KIND", "FROM", "STATE", "ASKS", "THEN", "WHY")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of all models."""
    return run_async(_list(args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        models = await agent.inspection.models()
    if args.json:
        out.writelines(json.dumps(model, ensure_ascii=False) + "\n" for model in models)
    else:
        style: Style = style_for(out, settings)
        out.write(table(_HEADER, _rows(models), style) + "\n")
    return 0


def _rows(models: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    rows = [(_name(m), m["kind"], m["source"], _state(m), _asks(m), _then(m), _why(m)) for m in models]
    return fitted(_HEADER, rows)


def _name(model: dict[str, Any]) -> str:
    return f"{model['id']} (default)" if model["default"] and model["source"] != "environment" else str(model["id"])


def _state(model: dict[str, Any]) -> str:
    return str(model["health"]["state"])


def _asks(model: dict[str, Any]) -> str:
    """Which model, and where."""
    name = model["model"] or ("the first listed" if model["endpoint"] else model["protocol"])
    return f"{name} at {model['endpoint']}" if model["endpoint"] else str(name)


def _then(model: dict[str, Any]) -> str:
    return ", ".join(model["fallbacks"]) or "-"


def _why(model: dict[str, Any]) -> str:
    """Why the last failed call failed, while it matters."""
    health = model["health"]
    return str(health["error"] or "") if health["state"] not in ("ok", "unknown") else ""
