"""Findings of the doctor: the state that was read becomes problems, each with its remedy. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from pentad.cli.doctor.diagnosis import DeadStream, Diagnosis, WorkStream
from pentad.cli.doctor.open_calls import MAX_CALLS, ToolQueue, WaitingCall
from pentad.cli.render import Style, harmless, lasting, plural
from pentad.contracts.ids import rfc3339
from pentad.shared.memory.memory_counts import REBUILD_COMMAND
from pentad.shared.presence.loop_holds import LoopHold
from pentad.shared.service.http import NOTE
from pentad.shared.store.server import Server, refusal_at_start

Level = Literal["ok", "note", "warn", "fail"]
_NEARLY_FULL = 0.9
_LONG_WAIT_S = 1.0
"""Seconds after which a call should have been taken by a tool-worker with a free place."""
_SHOWN_CALLS = 3
"""Calls, and workers, that one line names."""
_OF_SERVER = "see `pentad mcp` with the admin key, and docs/mcp.md; its tools cannot be called meanwhile"
_NAMED = 10
"""Tools that one line names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``do``: what to do about it; empty when nothing is to be done."""

    name: str
    level: Level
    detail: str
    do: str = ""


def healthy(findings: Iterable[Finding]) -> bool:
    """Whether nothing failed. A warning is no failure."""
    return all(finding.level != "fail" for finding in findings)


def split(error: Exception) -> tuple[str, str]:
    """Split one of our one-line errors into the problem and its remedy."""
    what, _, do = str(error).rpartition(": ")
    return (what, do) if what else (do, "")


def shown(finding: Finding, style: Style) -> str:
    """A line, and a second one that says what to do."""
    colour = {"ok": style.green, "note": style.dim, "warn": style.yellow, "fail": style.red}[finding.level]
    line = f"{colour(finding.level.ljust(4))}  {finding.name.ljust(12)} {harmless(finding.detail)}"
    return f"{line}\n{' ' * 19}{style.bold('do:')} {harmless(finding.do)}" if finding.do else line


def of_readiness(url: str, status: int, body: Any) -> Iterator[Finding]:
    """Yield the findings about an answer of ``/readyz``."""
    if status == 200:
        yield Finding("gateway", "ok", f"{url} is ready")
        return
    wrong = {name: text for name, text in _complaints(body) if not text.startswith(NOTE)}
    if not wrong:
        yield Finding("gateway", "fail", f"{url} is not ready (it answered {status})", "see its log")
    for name, complaint in wrong.items():
        yield Finding("gateway", "fail", f"{url} is not ready: {name}: {complaint}", _cure(name, complaint))


def _complaints(body: Any) -> Iterator[tuple[str, str]]:
    checks = body.get("checks", body) if isinstance(body, Mapping) else {}
    for name, outcome in checks.items() if isinstance(checks, Mapping) else ():
        if isinstance(outcome, Mapping):
            yield from ((f"{name} {inner}", text) for inner, text in _complaints(outcome))
        elif isinstance(outcome, str) and outcome.lower() not in ("ok", "ready", "not ready", "unavailable"):
            yield str(name), outcome


def _cure(name: str, complaint: str) -> str:
    if "make room" in complaint:
        return "make room on that disk: what waits for it is done then, and nothing is lost meanwhile"
    if REBUILD_COMMAND in complaint:
        return f"run {REBUILD_COMMAND}"
    store = "redis" in name.lower()
    return "start Redis, or correct REDIS_URL" if store else f"see the log of {name}"


def of_redis(place: str, embedded: bool, seen: Diagnosis) -> Iterator[Finding]:
    """The server, the work on it, and what was set aside."""
    kind = "embedded" if embedded else "external"
    server = seen.server
    if (refusal := refusal_at_start(server)) is not None:
        what, _, do = refusal.partition(": ")
        yield Finding("redis", "fail", f"{place}: {what}", do)
        return
    yield Finding("redis", "ok", f"{kind}: {server.name} at {place}, answers in {seen.latency_ms:.1f} ms")
    if server.role == "replica":
        yield Finding("role", "fail", "this is a read-only replica", "point REDIS_URL to the primary")
    yield _memory(server)
    yield _persistence(server, seen.fsync)
    yield from _unseen(seen.unseen)
    yield from _held(seen.holds)
    yield from _memory_stores(seen)
    yield from _work(seen)
    for queue in seen.calls:
        yield from _calls(queue)
    yield from _dead(seen.dead)


def _unseen(refused: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    for what, why in refused:
        if why.startswith("WRONGTYPE"):
            yield Finding("keys", "fail", f"{what} does not hold what Pentad keeps there", "rename or delete it")
        else:
            do = "allow it to the user of REDIS_URL: docs/redis.md"
            yield Finding("keys", "warn", f"{what}: not looked at: {why}", do)


def _held(holds: Iterable[LoopHold]) -> Iterator[Finding]:
    for hold in holds:
        at = rfc3339(hold.at)
        detail = f"the event loop of {hold.who} was held for {hold.seconds:g} s at {at}: it served nobody meanwhile"
        do = (
            "see its log of that time and pentad_loop_delay_seconds of its /metrics; where the machine was not "
            "overloaded, what it did then is a fault to report"
        )
        yield Finding("loop", "warn", detail, do)


def _memory_stores(seen: Diagnosis) -> Iterator[Finding]:
    """Yield the damage of the long-term memory's stores, and a rebuild that is under way."""
    goes_on = seen.rebuild is not None and not seen.rebuild.has_ended
    for damage in seen.damages:
        yield Finding("long-term", "warn" if goes_on else "fail", damage.what, damage.do)
    if seen.rebuild is not None and goes_on:
        waits = f"; it waits: {seen.rebuild.waits_for}" if seen.rebuild.waits_for else ""
        detail = f"it is being rebuilt: {seen.rebuild.done} of {seen.rebuild.total} tasks{waits}"
        yield Finding("long-term", "note", detail, "see how it goes on: `pentad memory rebuild`")


def _memory(server: Server) -> Finding:
    if server.used is None and server.policy is None:
        do = "see to it yourself that maxmemory-policy is noeviction"
        return Finding("memory", "note", "not known: INFO and CONFIG are not allowed here", do)
    of = f" of {_mib(server.limit)}" if server.limit else ", no limit"
    used = "an unknown part" if server.used is None else _mib(server.used)
    detail = f"{used}{of}, policy {server.policy or 'unknown'}"
    if server.evicts:
        do = "set maxmemory-policy noeviction: an evicted key is a lost task"
        return Finding("memory", "fail", detail, do)
    if server.limit and server.used is not None and server.used > _NEARLY_FULL * server.limit:
        return Finding("memory", "warn", detail, "raise maxmemory: when it is full, new messages are refused")
    return Finding("memory", "ok", detail)


def _persistence(server: Server, fsync: str | None) -> Finding:
    if server.aof is None:
        do = "see to it yourself that appendonly is on"
        return Finding("persistence", "note", "not known: INFO and CONFIG are not allowed here", do)
    if not server.aof:
        do = "set appendonly yes: without it a restart of Redis loses what was accepted"
        return Finding("persistence", "warn", "no append-only file", do)
    loss = {"always": "loses nothing", "everysec": "may lose the last two seconds", "no": "may lose more"}
    promise = loss.get(fsync or "", "how much it may lose is not known")
    return Finding("persistence", "ok", f"append-only file, fsync {fsync or 'unknown'}: a killed Redis {promise}")


def _mib(size: int) -> str:
    return f"{size / 1048576:.0f} MiB"


def _work(seen: Diagnosis) -> Iterator[Finding]:
    unserved = [stream for stream in seen.work if stream.unserved]
    for stream in unserved:
        yield _unserved(stream)
    for stream in seen.work:
        yield from _foreign(stream)
    yield from _ids(seen)
    if not unserved:
        shards = plural(len(seen.shards), "shard")
        kept = plural(seen.event_streams, "session")
        detail = f"no group with work is without a consumer: {len(seen.work)} work streams, {shards}, events of {kept}"
        yield Finding("groups", "ok", detail)


def _ids(seen: Diagnosis) -> Iterator[Finding]:
    for text, level in ((seen.inbound_full, "fail"), (seen.inbound_ahead, "warn")):
        if text is not None:
            what, _, do = text.rpartition(": ")
            yield Finding("inbound ids", cast(Level, level), what, do)


def _unserved(stream: WorkStream) -> Finding:
    service = stream.readers[0]
    do = f"start one: `pentad serve {service}` with this REDIS_URL (or `pentad up` for all six)"
    return Finding("groups", "fail", f"nobody serves {stream.key}, group {stream.group}: {_load(stream)}", do)


def _calls(queue: ToolQueue) -> Iterator[Finding]:
    """Yield the calls of a queue that wait for a tool-worker: first those of workers that have fallen silent."""
    start = (
        "start one that has these tools and whose PENTAD_QUEUES, where it is set, names this queue: `pentad serve "
        "tool-worker` with this REDIS_URL (or `pentad up` for all six)"
    )
    if queue.silent:
        workers = ", ".join(sorted({call.worker for call in queue.silent})[:_SHOWN_CALLS])
        silent = f"{workers} silent for {_seconds(max(call.silent_s for call in queue.silent))}"
        detail = f"{_waiting(queue.silent)} in {queue.key}, taken by a tool-worker that is gone or hangs ({silent})"
        if queue.workers:
            yield Finding("calls", "warn", detail, "wait: another tool-worker takes over what may run a second time")
        else:
            yield Finding("calls", "fail", f"{detail}; no other reads it", start)
    if queue.untaken:
        detail = f"{_waiting(queue.untaken)} in {queue.key}, taken by no tool-worker"
        if not queue.workers:
            yield Finding("calls", "fail", f"{detail}; none reads it", start)
        elif max(call.waits_s for call in queue.untaken) > _LONG_WAIT_S:
            do = "start more tool-workers, or raise PENTAD_TOOL_CONCURRENCY"
            yield Finding("calls", "warn", f"{detail}: {plural(queue.workers, 'tool-worker')} have no place free", do)
    if not queue.silent and not queue.untaken:
        yield Finding("calls", "ok", f"{plural(queue.open, 'tool call')} of {queue.key} at work")


def _waiting(calls: Sequence[WaitingCall]) -> str:
    """Say how many calls wait, and of what and for how long the oldest do."""
    count = plural(len(calls), "tool call") if len(calls) < MAX_CALLS else f"{len(calls)} tool calls or more"
    oldest = sorted(calls, key=lambda call: -call.waits_s)[:_SHOWN_CALLS]
    named = [
        f"{call.tool} of {call.task_id} for {_seconds(call.waits_s)}" if call.tool else "one that cannot be read"
        for call in oldest
    ]
    more = ", ..." if len(calls) > len(named) else ""
    return f"{count} {'waits' if len(calls) == 1 else 'wait'} ({', '.join(named)}{more})"


def _seconds(seconds: float) -> str:
    return lasting(round(seconds * 1000))


def _load(stream: WorkStream) -> str:
    ours = next((group for group in stream.groups if group.expected), None)
    if ours is None:
        return f"{stream.length} in the stream, and no {stream.readers[0]} was ever there"
    lag = "an unknown number" if ours.lag is None else ours.lag
    return f"{lag} waiting, {ours.pending} taken and not finished, {plural(ours.consumers, 'silent consumer')}"


def _foreign(stream: WorkStream) -> Iterator[Finding]:
    for group in stream.foreign:
        do = f"serve it, or remove it: XGROUP DESTROY {stream.key} {group.name}"
        held = f"group {group.name} on {stream.key} is not ours and holds back trimming"
        yield Finding("groups", "fail" if group.waiting and not group.active else "warn", held, do)


def _dead(streams: Iterable[DeadStream]) -> Iterator[Finding]:
    filled = [stream for stream in streams if stream.length]
    for stream in filled:
        detail = f"{stream.length} in {stream.key}; newest: {'; '.join(stream.reasons)}"
        yield Finding("dead letters", "warn", detail, "look at them: pentad dlq list")
    if not filled:
        yield Finding("dead letters", "ok", "none")


def tools_findings(tools: Sequence[Mapping[str, Any]] | None) -> Iterator[Finding]:
    """Whether living workers have the tools that tasks are offered, as ``GET /v1/tools`` says; None: it does not."""
    if tools is None:
        return
    silent = [tool for tool in tools if not tool.get("alive", True)]
    start = "start one: `pentad serve tool-worker` with this REDIS_URL (or `pentad up` for all six)"
    for tool in [tool for tool in tools if tool.get("missing_env")][:_NAMED]:
        for variable in tool["missing_env"]:
            do = "set it where the tool-worker runs, and start that again; under `pentad up` also in .env"
            yield Finding("tools", "warn", f"{tool['name']} reads the variable {variable}, which is not set", do)
    for tool in [tool for tool in tools if (tool.get("endpoint") or {}).get("problem")][:_NAMED]:
        do = f"register it under another name: `pentad tool remove {tool['name']}` removes this one"
        yield Finding("tools", "warn", f"the registered {tool['name']} is not there: {tool['endpoint']['problem']}", do)
    if not any(tool.get("seen_at", "") is not None for tool in tools):
        yield Finding("tools", "fail", "no tool-worker has told what it has: calls of tools fail", start)
    elif len(silent) == len(tools):
        last = max(str(tool.get("seen_at") or "") for tool in silent)
        yield Finding("tools", "fail", f"no tool-worker is there since {last}: calls of tools wait", start)
    elif silent:
        names = ", ".join(str(tool["name"]) for tool in silent[:_NAMED])
        do = "start a worker with the plugin that has it: calls of it wait until their time limit"
        yield Finding("tools", "warn", f"no living tool-worker has {names}", do)
    else:
        yield Finding("tools", "ok", f"tool-workers of the last minute have all {len(tools)} tools")


def server_findings(servers: Sequence[Mapping[str, Any]] | None) -> Iterator[Finding]:
    """Whether the MCP servers are there, as ``GET /v1/tools/servers`` says; None: it does not."""
    for server in servers or ():
        name, condition = str(server["name"]), server["condition"]
        if condition == "ready":
            left = f", {server['left_out_count']} left out: `pentad mcp` says why" if server["left_out_count"] else ""
            yield Finding("mcp", "ok", f"{name} is ready with {plural(int(server['tools']), 'tool')}{left}")
        else:
            level: Level = "warn" if condition in ("failing", "refused") else "note"
            words = str(condition).replace("_", " ")
            yield Finding(
                "mcp", level, f"{name} is {words}: {server['error'] or 'it has not answered yet'}", _OF_SERVER
            )


def plugin_findings(told: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Whether all tool-workers have taken up the last new code, as ``GET /v1/plugins`` says; None: it does not."""
    for worker in told["workers"] if told is not None else ():
        if worker["state"] == "failed":
            why = worker["error"] or "`pentad plugins` with the admin key says why"
            do = "mend the plug-in, then `pentad plugins reload`"
            detail = f"{worker['worker']} runs older code, because the new does not import: {why}"
            yield Finding("plugins", "warn", detail, do)


def listing(seen: Diagnosis) -> list[dict[str, Any]]:
    """Every work and dead-letter stream as plain data, for ``--json``."""
    work = [
        {"stream": s.name, "key": s.key, "length": s.length, "groups": [_group(g) for g in s.groups]} for s in seen.work
    ]
    return work + [{"stream": "dead", "key": s.key, "length": s.length, "reasons": s.reasons} for s in seen.dead]


def _group(group: Any) -> dict[str, Any]:
    return {name: getattr(group, name) for name in ("name", "expected", "lag", "pending", "consumers", "active")}
