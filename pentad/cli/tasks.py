"""``pentad tasks``, ``pentad task ID``, ``pentad cancel|pause|resume|complete ID`` and ``pentad move MESSAGE_ID``."""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TextIO

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import Style, ago, awaited, call_line, fitted, harmless, one_line, style_for, table, width
from pentad.cli.task_path import path_of_task, tree_lines, tree_of
from pentad.client.inspection import PAGE_LIMIT, Transcript
from pentad.client.management import Management
from pentad.contracts.comparisons import StepSide, TaskComparison
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import StepPrompt, Task, UnreadableTask
from pentad.errors import Refused
from pentad.shared.settings import Settings

_HEADER = ("TASK", "STATUS", "SESSION", "STEPS", "AGE", "UPDATED", "GOAL")
_COMPARED = ("STEP", "DIFFERS", "FIRST", "SECOND")
_STARTED = "└"
"""Mark of a task that another has started."""
_MOST_OF_WHY = 60
"""Characters of why a task waits or has failed, in a table."""
_CLEAR = "\x1b[H\x1b[2J"
_ROLES = {"user": "you", "assistant": "agent", "tool": "tool", "system": "system", "exclusion": "moved"}
_NODE = "node"
"""Role of entries that are no messages: they tell of a graph's run."""
_UNSAID = {"recalled": "memory"}
"""Speakers of messages with the role ``user`` that no user has sent, by origin."""


def run_tasks(args: argparse.Namespace, settings: Settings) -> int:
    """A table of the newest tasks; ``--status``, ``--session``, ``--since``, ``--until`` and ``--limit`` narrow it.

    ``--watch`` shows it live. Raises ``Refused`` for that with dates.
    """
    if args.watch and (args.since or args.until):
        raise Refused("--watch shows the newest tasks: leave out --since and --until")
    return run_async(_watch(args, settings) if args.watch else _tasks(args, settings))


def run_task(args: argparse.Namespace, settings: Settings) -> int:
    """One task with its path and its transcript; ``--step N --prompt``: what that step asked its model, instead.

    ``--path``: its path alone. ``--fork N`` begins a fork of the task at that step, ``--compare B`` says where it and
    another part. Raises ``NotFound``, ``Conflict`` for what cannot be forked and for the path of a task that runs no
    graph, and ``Refused`` for options that do not go together.
    """
    if args.fork is None and any((args.content, args.model, args.instruction)):
        raise Refused("--content, --model and --instruction go with --fork N")
    if sum((args.fork is not None, args.compare is not None, args.prompt, args.path)) > 1:
        raise Refused("--fork, --compare, --path and --prompt each stand alone")
    if args.mermaid and not args.path:
        raise Refused("--mermaid goes with --path: it draws the task's graph with its path marked")
    if args.path and args.step is not None:
        raise Refused("--path shows the whole task: leave --step and --prompt out")
    if args.fork is not None:
        return run_async(_fork(args, settings))
    if args.compare is not None:
        return run_async(_compare(args, settings))
    if args.path:
        return run_async(_path(args, settings))
    if args.prompt != (args.step is not None):
        raise Refused("--step N and --prompt go together: they show what step N asked its model")
    return run_async(_prompt(args, settings) if args.prompt else _task(args, settings))


def run_cancel(args: argparse.Namespace, settings: Settings) -> int:
    """Ask a task to stop. Raises ``NotFound``, or ``Conflict`` when it has ended."""
    return run_async(_ask(args, settings, lambda m: m.cancel_task, "is being cancelled"))


def run_pause(args: argparse.Namespace, settings: Settings) -> int:
    """Ask a task to pause. Raises ``NotFound``, or ``Conflict`` when it has ended."""
    return run_async(_ask(args, settings, lambda m: m.pause_task, "is being paused"))


def run_resume(args: argparse.Namespace, settings: Settings) -> int:
    """Ask a paused task to go on. Raises ``NotFound``, or ``Conflict`` when it has ended."""
    return run_async(_ask(args, settings, lambda m: m.resume_task, "goes on"))


def run_complete(args: argparse.Namespace, settings: Settings) -> int:
    """Say that a waiting task is done. Raises ``NotFound``, or ``Conflict`` when it does not wait."""
    return run_async(_ask(args, settings, lambda m: m.complete_task, "is being completed"))


def run_move(args: argparse.Namespace, settings: Settings) -> int:
    """Give a message to another task. Raises ``NotFound``, or ``Conflict`` when it cannot be moved so."""
    return run_async(_move(args, settings))


async def _tasks(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        dates = {"since": args.since, "until": args.until}
        tasks = await agent.inspection.tasks(args.status, args.session, args.limit, **dates)
    _show(tasks, args, out, settings)
    return 0


async def _watch(args: argparse.Namespace, settings: Settings) -> int:
    """The list, again at each change, until Ctrl-C. Raises ``ClientError``."""
    out, err = streams()
    agent = agent_for(args, settings, lambda why: _tell(err, why))
    async with agent:
        lists = agent.observe(args.session, status=args.status, limit=args.limit or PAGE_LIMIT)
        try:
            async with aclosing(lists) as found:
                async for tasks in found:
                    out.write(_CLEAR if out.isatty() and not args.json else "")
                    _show(tasks, args, out, settings)
        except asyncio.CancelledError:  # Ctrl-C is how one stops watching
            return 0
    return 0


def _tell(err: TextIO, why: str) -> None:
    err.write(why + "\n")
    err.flush()


def _show(tasks: list[Task], args: argparse.Namespace, out: TextIO, settings: Settings) -> None:
    if args.json:
        out.writelines(json.dumps(task.model_dump(mode="json"), ensure_ascii=False) + "\n" for task in tasks)
    elif tasks:
        out.write(table(_HEADER, _rows(tasks), style_for(out, settings)) + "\n")
    else:
        out.write("no tasks\n")
    out.flush()


def _rows(tasks: list[Task]) -> list[tuple[str, ...]]:
    return fitted(_HEADER, [_row(task) for task in tasks])


def _row(task: Task) -> tuple[str, ...]:
    times = ago(task.created_at), ago(task.updated_at)
    return (task.task_id, task.status, task.session_id, str(task.steps), *times, _about(task))


def _about(task: Task) -> str:
    """Return the goal of a task, after the reason for which it waits or has failed."""
    if isinstance(task, UnreadableTask):
        return task.problem
    waits = task.status in ("waiting", "stale", "pending")
    why = awaited(task) if waits else _ended_why(task)
    told = f"({one_line(why, _MOST_OF_WHY)}) {task.goal}" if why else task.goal
    told = f"{told} · {task.detail}" if task.detail else told
    return told if task.parent_task_id is None else f"{_STARTED} {told}"


def _ended_why(task: Task) -> str:
    """Why it has ended, where its status does not say so; '' where it has an answer."""
    return "" if task.status == "completed" or task.reason in (None, task.status) else str(task.reason)


async def _task(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        task = await agent.inspection.task(args.id)
        transcript = await agent.inspection.transcript(args.id)
        path = await path_of_task(agent.inspection, args.id)
        tree = None if path is None or args.json else await tree_of(agent.inspection, path)
    if args.json:
        whole = task.model_dump(mode="json") | {"messages": transcript.messages}
        whole |= {} if path is None else {"path": path.model_dump(mode="json", exclude_none=True)}
        out.write(json.dumps(whole, ensure_ascii=False) + "\n")
        return 0
    style = style_for(out, settings)
    drawn = [] if tree is None else ["", *tree_lines(tree, style)]
    out.write("\n".join([*_details(task, style), *drawn, "", *_messages(transcript, style)]) + "\n")
    return 0


async def _path(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        if args.mermaid:
            out.write(await agent.inspection.path_drawing(args.id))
            return 0
        path = await agent.inspection.path(args.id)
        if args.json:
            out.write(json.dumps(path.model_dump(mode="json", exclude_none=True), ensure_ascii=False) + "\n")
            return 0
        tree = await tree_of(agent.inspection, path)
    out.write("\n".join(tree_lines(tree, style_for(out, settings))) + "\n")
    return 0


async def _fork(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        others = {"instruction": args.instruction, "model": args.model}
        begun = await agent.management.fork(args.id, args.fork, args.content, **others)
    if args.json:
        out.write(json.dumps(begun.model_dump(mode="json"), ensure_ascii=False) + "\n")
        return 0
    out.write(f"{begun.task_id} in session {begun.session_id} goes on from step {args.fork} of {args.id}\n")
    for call in begun.effects:
        out.write(harmless(f"not repeated: {call.tool} ({call.effect}), {call.tool_call_id}") + "\n")
    return 0


async def _compare(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        found = await agent.inspection.compare(args.id, args.compare)
    if args.json:
        out.write(json.dumps(found.model_dump(mode="json", exclude_none=True), ensure_ascii=False) + "\n")
        return 0
    out.write("\n".join(_compared(found, style_for(out, settings))) + "\n")
    return 0


def _compared(found: TaskComparison, style: Style) -> list[str]:
    """Where two tasks part, in a line, and the steps as a table."""
    if found.parts_at is None:
        told = f"both tasks have the same {found.same_steps} steps"
    else:
        told = f"the tasks part at step {found.parts_at}: {', '.join(found.differs)}"
    rows = [
        (
            str(each.step),
            "same" if not each.differs else ", ".join(each.differs),
            _step_side(each.a),
            _step_side(each.b),
        )
        for each in found.steps
    ]
    lines = [told + ("; further steps were not compared" if found.more else "")]
    for task, used in ((found.a, found.usage_a), (found.b, found.usage_b)):
        cost = f", {used.usd:.4f} USD" if used.usd else ""
        lines.append(f"from there on {task.task_id}: {used.input_tokens} in, {used.output_tokens} out{cost}")
    return [*lines, table(_COMPARED, fitted(_COMPARED, rows), style)] if rows else lines


def _step_side(side: StepSide | None) -> str:
    if side is None:
        return "-"
    return one_line(harmless(f"{side.model}: {', '.join(side.calls) or side.finish_reason}"), _MOST_OF_WHY)


async def _prompt(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        prompt = await agent.inspection.prompt(args.id, args.step)
    if args.json:
        out.write(json.dumps(prompt.model_dump(mode="json"), ensure_ascii=False) + "\n")
        return 0
    style = style_for(out, settings)
    messages = [line for message in prompt.messages for line in _said(message, style)]
    out.write("\n".join([*_about_prompt(prompt, style), "", *messages]) + "\n")
    return 0


def _about_prompt(prompt: StepPrompt, style: Style) -> list[str]:
    tools = ", ".join(str(tool.get("function", {}).get("name")) for tool in prompt.tools or ())
    proof = "proved by its digest" if prompt.proved else "NOT proved: what is kept has another digest"
    facts: list[tuple[str, str | None]] = [
        ("task", prompt.task_id),
        ("step", f"{prompt.step} ({prompt.at})"),
        ("model", " as ".join(filter(None, (prompt.model_id, prompt.model)))),
        ("instruction", f"{prompt.instruction} (version {prompt.instruction_version})"),
        ("tools", harmless(tools) + (" (not to be called any more)" if prompt.tool_choice == "none" else "")),
        ("answer", "must fit a JSON schema: see --json" if prompt.answer_schema else None),
        ("digest", f"{prompt.digest} ({proof})"),
    ]
    return [f"{style.dim(name.ljust(12))}{value}" for name, value in facts if value]


def _said(message: dict[str, Any], style: Style) -> list[str]:
    """A message of a prompt, whole."""
    role = str(message.get("role"))
    calls = [call.get("function", {}) for call in message.get("tool_calls") or ()]
    lines = harmless(str(message.get("content") or "")).splitlines()
    lines += [harmless(f"⚙ {call.get('name')} {call.get('arguments')}") for call in calls]
    return [style.bold(role), *(f"  {line}" for line in lines)]


def _details(task: Task, style: Style) -> list[str]:
    usage = f"{task.usage.input_tokens} in{_hit_rate(task.usage)}, {task.usage.output_tokens} out"
    cost = f", {task.usage.usd:.4f} USD" if task.usage.usd else ""
    facts: list[tuple[str, str | None]] = [
        ("task", task.task_id),
        ("status", task.status),
        ("goal", one_line(task.goal, max(40, width() - 14))),
        ("started by", task.parent_task_id),
        ("session", task.session_id),
        ("user", task.user_id),
        ("instruction", task.instruction),
        ("created", _moment(task.created_at)),
        ("updated", _moment(task.updated_at)),
        ("last said", _moment(task.last_user_message_at)),
        ("ended", _moment(task.completed_at)),
        ("at node", task.node),
        ("steps", str(task.steps)),
        ("tokens", usage + cost),
        ("waiting for", _awaited(task)),
        ("reason", harmless(": ".join(filter(None, (_ended_why(task), task.detail))))),
        ("archived", task.archived_at),
    ]
    return [f"{style.dim(name.ljust(12))}{value}" for name, value in facts if value]


def _hit_rate(usage: TaskUsage) -> str:
    """Return which part of the input tokens servers had in their caches; nothing where none has told of any."""
    if not usage.cached_tokens:
        return ""
    return f" ({usage.cached_tokens / max(usage.cached_tokens, usage.input_tokens):.0%} cached)"


def _awaited(task: Task) -> str | None:
    """Return a task's open calls, each with its tool where that is known, or the question that a person is asked."""
    tools = [f"{tool} " for tool in task.waiting_for_tools or ()] or [""] * len(task.waiting_for)
    open_calls = zip(tools, task.waiting_for, strict=False)
    return harmless(", ".join(f"{tool}{call}" for tool, call in open_calls)) or None


def _moment(at: str | None) -> str | None:
    return f"{at} ({ago(at)} ago)" if at else None


def _messages(transcript: Transcript, style: Style) -> list[str]:
    if not transcript.messages:
        return ["no messages yet"]
    said = (message for message in transcript.messages if message.get("role") != _NODE)  # the path tells of those
    return [line for message in said for line in _message(message, style)]


def _message(message: dict[str, Any], style: Style) -> list[str]:
    """Who said it, where they said it, and what."""
    role = str(message.get("role"))
    who = _UNSAID.get(str(message.get("origin"))) if role == "user" else None
    about = [f"step {message['step']}"] if message.get("step") is not None else []
    about += [str(message[name]) for name in ("model", "finish_reason", "at") if message.get(name)]
    head = style.bold(who or _ROLES.get(role, role)) + style.dim(f"  {' · '.join(about)}" if about else "")
    content = harmless(str(message.get("content") or ""))
    if "positions" in message:
        left_out = ", ".join(map(str, message["positions"])) or "nothing"
        content = f"{message.get('message_id')} to {message.get('to_task_id')}; prompts leave out: {left_out}"
    lines = content.splitlines() if role != "tool" else [one_line(content, max(40, width() - 2))]
    return [head, *(f"  {line}" for line in lines), *_calls(message, style)]


def _calls(message: dict[str, Any], style: Style) -> list[str]:
    functions = [call.get("function", {}) for call in message.get("tool_calls") or ()]
    return [style.dim(f"  ⚙ {call_line(str(f.get('name')), str(f.get('arguments', '')), width())}") for f in functions]


async def _ask(
    args: argparse.Namespace,
    settings: Settings,
    action: Callable[[Management], Callable[[str], Awaitable[None]]],
    said: str,
) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        await action(agent.management)(args.id)
    out.write(f"{args.id} {said}\n")
    return 0


async def _move(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        await agent.management.move(args.message, args.to, args.task)
    out.write(f"{args.message} is being moved to {'a new task' if args.to == 'new' else args.to}\n")
    return 0
