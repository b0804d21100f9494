"""``pentad doctor``: what is reachable, what is embedded, who answers, who is missing, and what to do about it."""

import argparse
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from pentad.cli.doctor.findings import (
    Finding,
    healthy,
    listing,
    of_readiness,
    of_redis,
    plugin_findings,
    server_findings,
    shown,
    split,
    tools_findings,
)
from pentad.cli.doctor.models import embedding_finding, health_findings, model_findings
from pentad.cli.gateway import run as run_async
from pentad.cli.gateway import streams
from pentad.cli.render import Style, style_for
from pentad.client.address import address_for
from pentad.client.gateway import Rest
from pentad.errors import ClientError, NotAuthorized, NotFound
from pentad.shared.errors import OutageError
from pentad.shared.settings import Settings

if TYPE_CHECKING:
    from pentad.contracts.models import ModelHealth
    from pentad.shared.presence.announcements import ModelInUse


_MORE_TOKENS = (
    "nothing, if facts in people's own words are enough for them; else set a larger PENTAD_EXTRACT_TOKENS for the "
    "archivers, or a larger PENTAD_TENANT_SHARE"
)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Look at everything, with or without a running system. 0 when all is well, 1 otherwise."""
    return run_async(Doctor(args, settings).examine())


class Doctor:
    """One examination."""

    def __init__(self, args: argparse.Namespace, settings: Settings) -> None:
        self._url = args.url
        self._settings = settings
        self._json = bool(args.json)
        self._listing: list[dict[str, Any]] = []
        self._in_use: Sequence[ModelInUse] | None = None
        """Models that the running services use; None when nobody could be asked."""
        self._health: Sequence[ModelHealth] = ()

    async def examine(self) -> int:
        """Print what was found, line by line as it is found; the exit code."""
        out, _ = streams()
        style = style_for(out, self._settings)
        findings = []
        async for finding in self._findings():
            findings.append(finding)
            if not self._json:
                out.write(shown(finding, style) + "\n")
                out.flush()
        well = healthy(findings)
        if self._json:
            report = {"ok": well, "findings": [asdict(f) for f in findings], "streams": self._listing}
            out.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
        else:
            out.write(_verdict(findings, style))
        return 0 if well else 1

    async def _findings(self) -> AsyncIterator[Finding]:
        for part in (self._gateway, self._redis):
            async for finding in part():
                yield finding
        async for finding in model_findings(self._in_use, self._settings):
            yield finding
        for finding in health_findings(self._health):
            yield finding
        yield embedding_finding(self._in_use, self._settings)
        yield records_finding(self._settings)
        yield await sandbox_finding(self._settings)
        if self._settings.pentad_code == "on":
            yield programs_finding()

    async def _gateway(self) -> AsyncIterator[Finding]:
        try:
            address = address_for(self._url, self._settings)
        except ClientError as error:
            yield Finding("gateway", "fail", *split(error))
            return
        rest = Rest(address)
        try:
            answer = await rest.request("GET", "/readyz")
            for finding in of_readiness(address.url, answer.status_code, _json(answer)):
                yield finding
            await rest.call("GET", "/v1/tasks", limit=1)
            for finding in tools_findings(await _listed(rest, "/v1/tools")):
                yield finding
            for finding in server_findings(await _listed(rest, "/v1/tools/servers")):
                yield finding
            for finding in plugin_findings(await _plugins(rest)):
                yield finding
            self._health = _health_of(await _listed(rest, "/v1/models"))
            for finding in await remembered_findings(rest):
                yield finding
        except NotAuthorized as error:
            yield Finding("api key", "fail", *split(error))
        except ClientError as error:
            yield Finding("gateway", "fail", *split(error))
        finally:
            await rest.aclose()

    async def _redis(self) -> AsyncIterator[Finding]:
        from pentad.cli.doctor.diagnosis import diagnose, place_of

        url, embedded = redis_address(self._settings)
        if url is None:
            yield Finding(
                "redis", "note", "not looked at: no REDIS_URL here, and no embedded one in the data directory"
            )
            return
        try:
            seen = await diagnose(url, self._settings.pentad_shards)
        except OutageError as error:
            do = "start it with `make run`" if embedded else "start Redis, or correct REDIS_URL"
            yield Finding("redis", "fail", f"{place_of(url)} is unavailable: {error}", do)
            return
        except ValueError as error:
            yield Finding("redis", "fail", f"its address cannot be read: {error}", "correct REDIS_URL")
            return
        self._listing, self._in_use = listing(seen), seen.in_use
        self._health = seen.health or self._health
        for finding in of_redis(place_of(url), embedded, seen):
            yield finding


async def _listed(rest: Rest, path: str) -> list[dict[str, Any]] | None:
    """The items of a list; None where the gateway has no such list. Raises ``ClientError``."""
    try:
        return [item async for item in rest.pages(path, None)]
    except NotFound:
        return None


async def _plugins(rest: Rest) -> dict[str, Any] | None:
    """The plug-ins of the tool-workers; None where the gateway does not tell. Raises ``ClientError``."""
    try:
        told: dict[str, Any] = await rest.call("GET", "/v1/plugins")
    except NotFound:
        return None
    return told


def _health_of(models: Sequence[dict[str, Any]] | None) -> Sequence["ModelHealth"]:
    """How the running system's models do, as its gateway shows them."""
    from pentad.contracts.models import ModelHealth

    told = ("id", "kind", "state", "since", "error", "refused", "learned")
    shown = (model | model.get("health", {}) for model in models or ())
    seen = ({name: one[name] for name in told if one.get(name) is not None} for one in shown if one.get("since"))
    return [ModelHealth.model_validate(one) for one in seen]


async def remembered_findings(rest: Rest) -> list[Finding]:
    """Whether the long-term memory answers the gateway, and whether the tokens of its model are spent.

    Raises ``NotAuthorized``.
    """
    try:
        stats = await rest.call("GET", "/v1/memory/stats")
    except NotAuthorized:
        raise
    except NotFound:
        return [Finding("long-term", "note", "not looked at: this gateway is of a version without long-term memory")]
    except ClientError as error:
        do = "see the archiver's log, or QDRANT_URL and NEO4J_URI: what ends meanwhile is remembered later"
        return [Finding("long-term", "warn", str(error), do)]
    segments, nodes = stats.get("segments", 0), stats.get("nodes", 0)
    if nodes is None:
        do = "see the archiver's log, or NEO4J_URI: what ends meanwhile is remembered now, and learned from later"
        found = [Finding("long-term", "warn", f"memory answers: {segments} segments; the graph does not", do)]
    else:
        found = [Finding("long-term", "ok", f"memory answers: {segments} segments, {nodes} nodes")]
    today = stats.get("extraction")
    if today and today["refused"]:
        spent = (
            f"{today['refused']} of today's tasks have facts by rule alone: {today['tokens']} of {today['most']} tokens"
        )
        found.append(Finding("extraction", "warn", f"{spent} are spent until midnight UTC", _MORE_TOKENS))
    return found


def redis_address(settings: Settings) -> tuple[str | None, bool]:
    """The Redis to look at, and whether it is the embedded one of a running ``pentad up``."""
    if settings.redis_url is not None:
        return settings.redis_url, False
    try:
        return (settings.pentad_data_dir / "redis.url").read_text().strip() or None, True
    except OSError:
        return None, True


def records_finding(settings: Settings) -> Finding:
    """Where finished tasks are kept."""
    kind = "external" if "://" in settings.records_url else "embedded"
    return Finding("records", "ok", f"{kind}: {settings.records_url.rpartition('@')[2]}")


async def sandbox_finding(settings: Settings) -> Finding:
    """Whether scripts of models can be run on this machine, and how they are confined."""
    if settings.pentad_code == "off":
        return Finding(
            "sandbox",
            "note",
            "not looked at: PENTAD_CODE is off here; set it as the tool-workers have it",
        )
    if settings.pentad_sandbox == "off":
        do = "unset PENTAD_SANDBOX, unless something else confines the whole tool-worker: docs/sandbox.md"
        return Finding("sandbox", "warn", "off: scripts of models run with the tool-worker's files and network", do)
    from pentad.shared.sandbox.namespaces import find_bubblewrap
    from pentad.shared.sandbox.sandbox import Sandbox
    from pentad.shared.sandbox.script_run import SandboxError

    sandbox = Sandbox(bubblewrap=find_bubblewrap())
    try:
        confining = await sandbox.prove()
    except SandboxError as error:
        return Finding("sandbox", "fail", str(error), "run the tool-workers where one of them is: docs/sandbox.md")
    finally:
        await sandbox.aclose()
    return Finding("sandbox", "ok", f"a script ran on this machine, confined by {confining.words}")


def programs_finding() -> Finding:
    """Whether programs of models that call tools can be run on this machine."""
    try:
        found = version("pydantic-monty")
    except PackageNotFoundError:
        why = "run_program is not offered by tool-workers like this one: the package pydantic-monty is not installed"
        return Finding("programs", "warn", why, "pip install 'pentad[code]' where the tool-workers run")
    return Finding("programs", "ok", f"run_program has its interpreter, pydantic-monty {found}")


def _json(answer: Any) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _verdict(findings: Sequence[Finding], style: Style) -> str:
    if not healthy(findings):
        return style.red("not all is well\n")
    warned = any(finding.level == "warn" for finding in findings)
    return "it works; see the warnings\n" if warned else style.green("all is well\n")
