"""Findings of the doctor about models: those of the running services, or of this shell's settings without them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pentad.cli.doctor.findings import Finding, split
from pentad.shared.errors import SettingsError
from pentad.shared.settings import Settings

if TYPE_CHECKING:
    from pentad.contracts.models import ModelHealth
    from pentad.shared.presence.announcements import ModelInUse

_PATIENCE_S = 10.0
_LLM_KEY = "LLM_API_KEY"
_IS_THERE = "wait: it is there, and tasks ask it again by themselves; if it stays so, see the server's own log"
_OF_THIS_SHELL = "not known from here which the running system uses; by this shell's settings: "


async def model_findings(in_use: Sequence[ModelInUse] | None, settings: Settings) -> AsyncIterator[Finding]:
    """The model of each task-runner. ``in_use`` None: nobody could be asked."""
    if in_use is None:
        found = await _of_settings(settings)
        yield replace(found, detail=_OF_THIS_SHELL + found.detail)
        return
    told = [one for one in in_use if one.service == "task-runner"]
    for one in told:
        yield await _used(one.model, one.place, settings)
    if not told:
        do = "start one: `pentad serve task-runner` with this REDIS_URL (or `pentad up` for all six)"
        yield Finding("model", "note", "not known: no task-runner runs to say which one it uses", do)


def health_findings(health: Sequence[ModelHealth]) -> Iterator[Finding]:
    """Yield the models that task-runners report as unwell, and what their servers have refused."""
    learned = dict.fromkeys(f"{one.id}: {line}" for one in health for line in one.learned)
    for line in learned:
        yield Finding("models", "note", line)
    for one in health:
        detail = f"{one.id} is {one.state} since {one.since}: {one.error}"
        if one.refused:
            names = "EMBED_API_KEY, EMBED_BASE_URL" if one.kind == "embedding" else "LLM_API_KEY, LLM_BASE_URL"
            do = f"correct {names} or its entry where the system was started, and start it again"
            yield Finding("models", "fail", detail, do)
        elif one.state == "open":
            do = "it is asked again by itself; until then its fallbacks answer, or tasks wait: pentad models"
            yield Finding("models", "warn", detail, do)
        elif one.state != "ok":
            yield Finding("models", "note", detail)


async def _of_settings(settings: Settings) -> Finding:
    from pentad.shared.models.configured_models import configured_models, environment_chat
    from pentad.shared.models.model_makers import make_of_entry

    try:
        default = configured_models(settings).and_registered(()).chain(None)[0]
        ours = default.source == "environment"
        model = environment_chat(settings) if ours else make_of_entry(default.entry)
    except SettingsError as error:
        return Finding("model", "fail", *split(error))
    return await _used(model.name, model.place, settings)


async def _used(name: str, place: str | None, settings: Settings) -> Finding:
    """A model as somebody is set to it; a real endpoint is asked for what it has."""
    from pentad.shared.models.endpoint import Endpoint
    from pentad.shared.models.model_makers import described
    from pentad.shared.models.ports import ModelFailed, ModelRefused, ModelUnavailable

    if place is None:
        return _offline(settings)
    ours = Endpoint(settings.llm_base_url, _key(settings))
    # The key of this shell goes to the endpoint of this shell and to no other.
    known = ours.place == place and _LLM_KEY not in settings.withheld
    endpoint = ours if ours.place == place else Endpoint(place, None)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            listed = _ids(await endpoint.fetch("/models", None))
    except TimeoutError:
        do = "see what the model server does; a proxy or firewall may stand between"
        return Finding("model", "fail", f"no answer from {place} within {_PATIENCE_S:g} s", do)
    except ModelRefused as error:
        if not known:
            return Finding(
                "model",
                "ok",
                f"{described(name, place)}, which answers; whether it takes the system's key is not known"
                f"{_why_unsent(settings)}",
            )
        return Finding("model", "fail", str(error), "correct LLM_BASE_URL and LLM_API_KEY, and start again")
    except ModelFailed as error:
        if isinstance(error, ModelUnavailable) and error.status:
            return Finding("model", "warn", str(error), _IS_THERE)
        return Finding("model", "fail", str(error), "start the model server, or correct LLM_BASE_URL and start again")
    finally:
        await endpoint.aclose()
    return _choice(name, listed, place)


def _why_unsent(settings: Settings) -> str:
    if _LLM_KEY not in settings.withheld:
        return ""
    unsent = ": LLM_API_KEY is exported, and LLM_BASE_URL stands in .env of this folder alone, so the key was not sent"
    return f"{unsent} there; export LLM_BASE_URL too, or write LLM_API_KEY into the same .env"


def _offline(settings: Settings) -> Finding:
    from pentad.shared.models.model_makers import described

    do = "for a real one start the system with LLM_API_KEY or LLM_BASE_URL (and LLM_MODEL_ID)"
    if _key(settings) or settings.llm_base_url:
        do = "the LLM_* variables of this shell are not the running system's: start it again with them"
    return Finding("model", "note", described("", None), do)


def _choice(name: str, listed: list[str], place: str) -> Finding:
    from pentad.shared.models.model_makers import described
    from pentad.shared.models.ports import UNNAMED

    if name == UNNAMED:
        if not listed:
            return Finding("model", "fail", f"{place} lists no model", "set LLM_MODEL_ID")
        name = listed[0]
    if listed and name not in listed:
        known = ", ".join(listed[:5])
        return Finding("model", "warn", f"{place} does not list {name}", f"check LLM_MODEL_ID; it lists {known}")
    return Finding("model", "ok", described(name, place))


def _ids(listing: dict[str, object]) -> list[str]:
    data = listing.get("data")
    rows = data if isinstance(data, list) else []
    return [str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row]


def _key(settings: Settings) -> str | None:
    return settings.llm_api_key.get_secret_value() if settings.llm_api_key else None


def embedding_finding(in_use: Sequence[ModelInUse] | None, settings: Settings) -> Finding:
    """Tell which embedding model is in use. It is not called, for that would cost money."""
    if in_use is None:
        return _embedding_of_settings(settings)
    told = [_embedding(one.model, one.place) for one in in_use if one.service == "embedding"]
    if told:
        return Finding("embedding", "ok", "; ".join(told))
    return Finding("embedding", "note", "not known: no embedding service runs to say what it uses")


def _embedding_of_settings(settings: Settings) -> Finding:
    from pentad.shared.models.model_makers import make_embedding_model

    key = settings.embed_api_key.get_secret_value() if settings.embed_api_key else None
    try:
        model = make_embedding_model(settings.embed_model_type, settings.embed_model_name, key, settings.embed_base_url)
    except SettingsError as error:
        return Finding("embedding", "fail", *split(error))
    return Finding("embedding", "ok", _OF_THIS_SHELL + _embedding(model.name, model.place))


def _embedding(name: str, place: str | None) -> str:
    return f"embedded: {name}" if place is None else f"external: {name} at {place}"
