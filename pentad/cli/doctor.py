"""``pentad doctor``: what is reachable, what is embedded, who answers, who is missing, and what to do about it."""

import argparse
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from pentad.cli.findings import Finding, healthy, listing, of_readiness, of_redis, shown
from pentad.cli.gateway import run as run_async
from pentad.cli.gateway import streams
from pentad.cli.render import style_for
from pentad.errors import ClientError, NotAuthorized
from pentad.rest import Rest
from pentad.transport import Address
from shared.errors import OutageError, SettingsError
from shared.settings import Settings


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Look at everything, with or without a running system. 0 when all is well, 1 otherwise."""
    return run_async(Doctor(args, settings).examine())


class Doctor:
    """One examination."""

    def __init__(self, args: argparse.Namespace, settings: Settings) -> None:
        key = settings.pentad_api_key
        self._address = Address.parse(args.url or settings.pentad_url, key.get_secret_value() if key else None)
        self._settings = settings
        self._json = bool(args.json)
        self._listing: list[dict[str, Any]] = []

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
            out.write(style.green("all is well\n") if well else style.red("not all is well\n"))
        return 0 if well else 1

    async def _findings(self) -> AsyncIterator[Finding]:
        for part in (self._gateway, self._redis):
            async for finding in part():
                yield finding
        yield await model_finding(self._settings)
        yield embedding_finding(self._settings)
        yield records_finding(self._settings)

    async def _gateway(self) -> AsyncIterator[Finding]:
        rest = Rest(self._address)
        try:
            answer = await rest.request("GET", "/readyz")
            for finding in of_readiness(self._address.url, answer.status_code, _json(answer)):
                yield finding
            await rest.call("GET", "/v1/tasks", limit=1)
        except NotAuthorized as error:
            yield Finding("api key", "fail", *_split(error))
        except ClientError as error:
            yield Finding("gateway", "fail", *_split(error))
        finally:
            await rest.aclose()

    async def _redis(self) -> AsyncIterator[Finding]:
        from shared.state.diagnosis import diagnose, place_of

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
            yield Finding("redis", "fail", f"{place_of(url)} does not serve: {error}", do)
            return
        except ValueError as error:
            yield Finding("redis", "fail", f"its address cannot be read: {error}", "correct REDIS_URL")
            return
        self._listing = listing(seen)
        for finding in of_redis(place_of(url), embedded, seen):
            yield finding


def redis_address(settings: Settings) -> tuple[str | None, bool]:
    """The Redis to look at, and whether it is the embedded one of a running ``pentad up``."""
    if settings.redis_url is not None:
        return settings.redis_url, False
    try:
        return (settings.pentad_data_dir / "redis.url").read_text().strip() or None, True
    except OSError:
        return None, True


async def model_finding(settings: Settings) -> Finding:
    """Which model answers by the settings of this shell; a real endpoint is asked for its models."""
    from shared.models.endpoint import Endpoint
    from shared.models.ports import ModelFailed

    key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else None
    if key is None and settings.llm_base_url is None:
        do = "for a real one set LLM_BASE_URL, LLM_API_KEY and LLM_MODEL_ID"
        return Finding(
            "model", "note", "the offline model answers, a rule-based stand-in (by this shell's settings)", do
        )
    endpoint = Endpoint(settings.llm_base_url, key)
    try:
        listed = [str(model["id"]) for model in (await endpoint.fetch("/models", None)).get("data") or ()]
    except ModelFailed as error:
        return Finding("model", "fail", str(error), "correct LLM_BASE_URL and LLM_API_KEY, or start the model server")
    except (KeyError, TypeError):
        listed = []
    finally:
        await endpoint.aclose()
    return _model_choice(settings.llm_model_id, listed, endpoint.place)


def _model_choice(wanted: str | None, listed: list[str], place: str) -> Finding:
    if wanted is None and not listed:
        return Finding("model", "fail", f"{place} lists no model", "set LLM_MODEL_ID")
    if wanted is not None and listed and wanted not in listed:
        known = ", ".join(listed[:5])
        return Finding("model", "warn", f"{place} does not list {wanted}", f"check LLM_MODEL_ID; it lists {known}")
    return Finding("model", "ok", f"{wanted or listed[0]} at {place}")


def embedding_finding(settings: Settings) -> Finding:
    """What turns text into vectors; nothing is asked, for that would cost money."""
    from shared.models.registry import make_embedding_model

    key = settings.embed_api_key.get_secret_value() if settings.embed_api_key else None
    try:
        model = make_embedding_model(settings.embed_model_type, settings.embed_model_name, key, settings.embed_base_url)
    except SettingsError as error:
        return Finding("embedding", "fail", *_split(error))
    kind = "embedded" if settings.embed_model_type == "simple" else "external"
    return Finding("embedding", "ok", f"{kind}: {model.name}")


def records_finding(settings: Settings) -> Finding:
    """Where finished tasks are kept."""
    kind = "external" if "://" in settings.records_url else "embedded"
    return Finding("records", "ok", f"{kind}: {settings.records_url.rpartition('@')[2]}")


def _split(error: Exception) -> tuple[str, str]:
    """What is wrong, and what to do, of one of our one-line errors."""
    what, _, do = str(error).rpartition(": ")
    return (what, do) if what else (do, "")


def _json(answer: Any) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None
