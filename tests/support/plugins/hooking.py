"""Hooks for tests. Files in the folder ``HOOKING`` say how they behave, and they note there what they were told."""

import os
import time
from pathlib import Path
from typing import Any

from pentad import HookAnswer, HookCall, HookContext, HookResult, HookTask, hook

_FOLDER = Path(os.environ.get("HOOKING", "."))


def _wanted(name: str) -> str:
    path = _FOLDER / name
    return path.read_text() if path.exists() else ""


def _note(line: str) -> None:
    with (_FOLDER / "told").open("a") as file:
        file.write(f"{line}\n")


def _misbehave(how: str) -> Any:
    """Do what a hook must not."""
    if how == "raise":
        raise RuntimeError("on purpose")
    if how == "hang":
        time.sleep(3600)
    if how == "die":
        os._exit(3)
    if how == "megabytes":
        return [{"role": "user", "content": "x" * (2 << 20)}]
    return {"nonsense": object()}


@hook("before_model", order=2, timeout=1)
def mark(messages: list[dict[str, Any]]) -> Any:
    """Put a line at the end of the system message, and a message before the last."""
    how = _wanted("before_model")
    if how in ("raise", "hang", "die", "megabytes", "nonsense"):
        return _misbehave(how)
    if how != "mark":
        return None
    messages[0]["content"] += " Be brief."
    messages.insert(1, {"role": "system", "content": "noted"})
    return messages


@hook("before_model", order=3, instructions=["careless"])
def breaks(messages: list[dict[str, Any]]) -> None:
    """Fail each step of one instruction."""
    raise RuntimeError(f"on purpose, with {len(messages)} messages")


@hook("after_model")
async def rewrite(answer: HookAnswer) -> HookAnswer | None:
    """Replace a word of the text and of the arguments of calls."""
    if _wanted("after_model") == "raise":
        raise RuntimeError("on purpose")
    answer.text = answer.text.replace("bad", "good")
    return answer


@hook("before_tool", order=1)
async def guard(call: HookCall, ctx: HookContext) -> Any:
    """Refuse what is said to be forbidden, and change what is to be changed."""
    _note(f"before_tool {ctx.instruction} {call.tool} {call.args.get('text')}")
    text = str(call.args.get("text"))
    if "forbidden" in text:
        return False, "that is forbidden"
    if "change" in text:
        call.args["text"] = "changed"
        return call
    return True


@hook("before_tool", order=2)
def later(call: HookCall) -> bool:
    """Tell that it was asked."""
    _note(f"later {call.args.get('text')}")
    return True


@hook("after_tool")
def redact(result: HookResult) -> str:
    """Hide a secret."""
    if _wanted("after_tool") == "raise":
        raise RuntimeError("on purpose")
    return result.text.replace("secret", "******")


@hook("task_start")
def began(task: HookTask, ctx: HookContext) -> None:
    """Note that a task begins."""
    _note(f"task_start {ctx.tenant_id} {task.goal}")


@hook("task_end")
async def ended(task: HookTask) -> None:
    """Note that a task has ended."""
    _note(f"task_end {task.status} {task.reason} {task.answer}")
