"""``pentad memory``, search to rebuild: what was said, and what is known from it."""

import argparse
import json

from pentad.cli.gateway import agent_for, speaker_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.memory_node import show
from pentad.cli.memory_rebuild import rebuild
from pentad.cli.memory_reindex import reindex
from pentad.cli.render import Style, ago, harmless, style_for
from pentad.contracts.memories import FoundMemory, MemoryKind, OpenedAnchor, QuotedSegment, RecalledTask
from pentad.shared.segments.anchors import BadAnchorError, anchor_of
from pentad.shared.settings import Settings

_SPEAKERS = {"user": "you", "assistant": "agent"}


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run one of the actions."""
    actions = {"search": _search, "expand": _expand, "show": show, "add": _add, "stats": _stats}
    actions |= {"forget": _forget, "unforget": _unforget, "reindex": reindex, "rebuild": rebuild}
    return run_async(actions[args.action](args, settings))


async def _search(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with speaker_for(args, settings) as agent:
        asked = {"limit": args.limit, "as_of": args.as_of, "depth": args.depth}
        asked |= {"kind": args.kind, "session_id": args.session}
        found = await agent.inspection.recall(args.question, strategy=args.strategy or "auto", tasks=False, **asked)
    if args.json:
        out.writelines(hit.to_json().decode() + "\n" for hit in found.hits)
    elif found.hits:
        style = style_for(out, settings)
        tasks = [_task(task, style) for task in found.tasks] if args.strategy else []
        out.write("\n".join([*(line for hit in found.hits for line in _hit(hit, style)), *tasks]) + "\n")
    else:
        out.write("nothing is remembered of that\n")
    return 0


def _hit(hit: FoundMemory, style: Style) -> list[str]:
    """How good it is and what, then the words, then the anchor in a line of its own, to be copied."""
    ended = [f"true until {hit.true_until}"] if hit.true_until else []
    about = [hit.type, _short(hit.anchor) or hit.task_id, *_when(hit.at), *ended]
    head = style.bold(f"{hit.score:.2f}") + style.dim(f"  {' · '.join(about)}")
    return [head, *_indented(hit.content), style.dim(f"  {hit.anchor}")]


def _task(task: RecalledTask, style: Style) -> str:
    about = [f"{len(task.hits)} of these" if task.hits else "beside these", *_when(task.at)]
    return f"task {task.task_id}" + style.dim(f"  {' · '.join(about)}")


async def _expand(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        opened = await agent.inspection.expand(args.anchor, window=args.window)
    if args.json:
        out.write(opened.to_json().decode() + "\n")
    else:
        style = style_for(out, settings)
        out.write("\n".join(_opened(opened, style)) + "\n")
    return 0


async def _add(args: argparse.Namespace, settings: Settings) -> int:
    """Print the id of what is known, or the anchor of what was said."""
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        if args.kind == MemoryKind.EPISODIC:
            named = (await agent.memory.episodic.add(args.text, user_id=args.user)).anchor
        else:
            named = (await agent.memory.semantic.add(args.text, user_id=args.user)).id
    out.write(f"{named}\n")
    return 0


async def _stats(args: argparse.Namespace, settings: Settings) -> int:
    """Print a line for each kind; with a conversation, that of its working memory too."""
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        found = await (agent if args.session is None else agent.session(args.session)).memory.stats()
    if args.json:
        out.write(json.dumps(found) + "\n")
    else:
        for kind, figures in found.items():
            out.write(f"{kind}: {', '.join(f'{number} {name}' for name, number in figures.items())}\n")
    return 0


async def _forget(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    limits = {"since": args.since, "until": args.until, "user_id": args.user, "kind": args.kind}
    limits["importance_below"] = args.importance_below
    tasks = [name for name in args.ids if name.startswith("task-")]
    hits = [name for name in args.ids if not name.startswith("task-")]
    forgotten = 0
    async with agent_for(args, settings) as agent:
        for task in tasks:
            forgotten += await agent.management.forget(task_id=task, **limits)
        if hits or not tasks:
            forgotten += await agent.management.forget(hits or None, **limits)
    out.write(f"{forgotten} forgotten\n")
    return 0


async def _unforget(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        restored = await agent.management.unforget(args.anchor, user_id=args.user)
    out.write(f"{restored} found again\n")
    return 0


def _opened(opened: OpenedAnchor, style: Style) -> list[str]:
    lines = [style.dim(f"task {opened.focus.task_id}")]
    for segment in (*opened.before, opened.focus, *opened.after):
        mark = ">" if segment is opened.focus else " "
        lines += _segment(segment, mark, style)
    return lines


def _segment(segment: QuotedSegment, mark: str, style: Style) -> list[str]:
    speaker = harmless(_SPEAKERS.get(segment.speaker, segment.speaker))
    about = [segment.type.value, *filter(None, [_short(segment.anchor)]), *_when(segment.at)]
    return [f"{mark} {style.bold(speaker)}" + style.dim(f"  {' · '.join(about)}"), *_indented(segment.content, "    ")]


def _short(anchor: str) -> str:
    """Return the short form of an anchor, which can be opened, too; '' for one of another version."""
    try:
        return anchor_of(anchor).short
    except BadAnchorError:
        return ""


def _when(at: str | None) -> list[str]:
    return [f"{ago(at)} ago"] if at else []


def _indented(text: str, by: str = "  ") -> list[str]:
    return [f"{by}{line}" for line in harmless(text).splitlines()]
