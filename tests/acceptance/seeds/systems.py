"""Whole systems with a scripted model, for the tests of the documents' names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, say


@dataclass
class Script:
    """Answers of the model: those of ``next`` first, each once."""

    next: list[Reply] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    by_prompt: dict[str, Reply] = field(default_factory=dict)
    """Answers by the beginnings of system prompts, before all others."""

    def __call__(self, request: dict[str, Any]) -> Reply:
        self.asked.append(request)
        prompt = str(request["messages"][0]["content"])
        for beginning, reply in self.by_prompt.items():
            if prompt.startswith(beginning):
                return reply
        return self.next.pop(0) if self.next else say("good day", thinking="hm")


@asynccontextmanager
async def system(
    folder: Path, *, embedding: bool = False, **more: Any
) -> AsyncIterator[tuple[pentad.Agent, Script, ScriptedModel]]:
    """All six services in this program, on a scripted model that is asked for answers alone.

    ``embedding``: its server makes the vectors too.
    """
    script = Script()
    async with ScriptedModel(script) as server:
        place = server.base_url
        if embedding:
            more |= {"embed_model_type": "openai", "embed_model_name": "scripted", "embed_base_url": place}
        given: dict[str, Any] = {"llm_base_url": place, "llm_model_id": "scripted", "pentad_route": "explicit"}
        given |= {"pentad_extract": "never", "pentad_retrieve": "never"}
        given |= {"pentad_key_hosts": f"SEEDS_API_KEY={place.removesuffix('/v1')}"}
        async with pentad.start(folder, **(given | more)) as agent:
            yield agent, script, server
