"""A matrix: two tenants, three users each, with and without a user, 40 facts. Who finds what by every route, tool and
prompt is exactly what belongs to them, and nothing crosses."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pentad.client.agent import Agent, connect
from pentad.contracts.quotes import quotes_in
from pentad.errors import GatewayUnreachable, NotFound
from tests.acceptance.test_face import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.processes.up import Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

TENANTS = ("north", "south")
USERS = ("ada", "bob", "cyd")
ANONYMOUS = ("desk-1", "desk-2")
"""Sessions in which nobody is named."""
_ORDER = re.compile(r"\[\[(\w+) (\{.*\})\]\]")
_LETTERS = "bcdfghjklmnprstvwz"


@dataclass(frozen=True)
class Fact:
    """Something that was told, and who may find it: a user, a session, or all of the tenant (neither)."""

    name: str
    tenant: str
    user: str | None = None
    session: str | None = None

    @property
    def text(self) -> str:
        return f"Remember that my code for {self.name} is {self.name[::-1]}."


@dataclass(frozen=True)
class Reader:
    """Who looks."""

    tenant: str
    user: str | None = None
    session: str | None = None

    def expects(self, facts: Sequence[Fact]) -> set[str]:
        """The names of what this reader may find."""
        seen = [fact for fact in facts if fact.tenant == self.tenant]
        return {
            fact.name
            for fact in seen
            if (fact.user, fact.session) == (None, None)
            or (fact.user is not None and fact.user == self.user)
            or (fact.session is not None and fact.session == self.session)
        }

    @property
    def where(self) -> dict[str, Any]:
        return {"user_id": self.user, "session_id": self.session}


def told() -> list[Fact]:
    """40 facts: five of each user, two of each session without a user, and one shared by each tenant."""
    names = iter(f"Qu{a}o{b}ax" for a in _LETTERS for b in _LETTERS)
    facts: list[Fact] = []
    for tenant in TENANTS:
        facts += [Fact(next(names), tenant, user=user) for user in USERS for _ in range(5)]
        facts += [Fact(next(names), tenant, session=session) for session in ANONYMOUS for _ in range(2)]
        facts.append(Fact(next(names), tenant))
    return facts


FACTS = told()
READERS = [
    Reader(tenant, user, session)
    for tenant in TENANTS
    for user in (*USERS, "stranger", None)
    for session in (*ANONYMOUS, "elsewhere", None)
]
ALL_NAMES = " ".join(fact.name for fact in FACTS)


def obey(request: dict[str, Any]) -> Reply:
    """Call the tool that the user's message orders; say something else when its result is there."""
    last = [message for message in request["messages"] if message["role"] in ("user", "tool")][-1]
    ordered = _ORDER.search(last["content"]) if last["role"] == "user" else None
    return call((ordered[1], ordered[2])) if ordered else say("Noted.")


def names_in(text: str) -> set[str]:
    """The facts that a text tells: each by its name and the code beside it."""
    return {fact.name for fact in FACTS if fact.name in text or fact.name[::-1] in text}


def codes_in(text: str) -> set[str]:
    """The same by their codes alone, which no question of this test names."""
    return {fact.name for fact in FACTS if fact.name[::-1] in text}


async def added(agent: Agent, text: str) -> bool:
    """Whether it is kept; a memory that is not there in two seconds is asked again."""
    try:
        return bool(await agent.management.add_node("fact", text))
    except GatewayUnreachable:
        return False


async def teach(agents: dict[str, Agent]) -> None:
    """Tell each fact in the conversation of its user or session; one of each tenant is added by hand for all."""

    async def tell(fact: Fact) -> None:
        agent = agents[fact.tenant]
        if (fact.user, fact.session) == (None, None):
            await wait_until("the memory to take what is added by hand", lambda: added(agent, fact.text))
            return
        session = fact.session or f"home-of-{fact.user}"
        await agent.ask(fact.text, session_id=session, user_id=fact.user, task_id="new")

    for tenant in TENANTS:
        await asyncio.gather(*(tell(fact) for fact in FACTS if fact.tenant == tenant))

    async def learned(owner: Reader) -> bool:
        return await searched(agents[owner.tenant], owner, kind="semantic") >= owner.expects(FACTS)

    for owner in dict.fromkeys(Reader(fact.tenant, fact.user, fact.session) for fact in FACTS):
        await wait_until(f"what {owner} has said to be known", lambda who=owner: learned(who), 60)  # type: ignore[misc]


async def searched(agent: Agent, reader: Reader, **how: Any) -> set[str]:
    hits = await agent.inspection.search_memory(ALL_NAMES, limit=100, **reader.where, **how)
    return names_in(" ".join(hit.content for hit in hits))


async def by_rest(agents: dict[str, Agent]) -> None:
    """Search by each strategy and kind; what is expected is found, and nothing else."""
    for reader in READERS:
        agent, expected = agents[reader.tenant], reader.expects(FACTS)
        assert await searched(agent, reader) == expected, reader
        assert await searched(agent, reader, kind="semantic") == expected, reader
        for how in ({"strategy": "bfs", "depth": 6}, {"strategy": "dfs"}, {"strategy": "astar"}, {"strategy": "none"}):
            assert await searched(agent, reader, **how) <= expected, (reader, how)
        assert await searched(agent, reader, as_of="2100-01-01T00:00:00Z") <= expected, reader
    for reader in READERS:
        if reader.session in ANONYMOUS:
            found = await searched(agents[reader.tenant], reader, kind="working")
            assert found == reader.expects(FACTS) & names_in_session(reader), reader


def names_in_session(reader: Reader) -> set[str]:
    return {fact.name for fact in FACTS if (fact.tenant, fact.session) == (reader.tenant, reader.session)}


async def by_node_and_anchor(agents: dict[str, Agent]) -> None:
    """Each node and each anchor opens for those who find it, and is a 404 for all others."""
    nodes: dict[str, str] = {}
    anchors: dict[str, str] = {}
    for fact in FACTS:
        owner = Reader(fact.tenant, fact.user, fact.session)
        for hit in await agents[fact.tenant].inspection.search_memory(fact.text, limit=20, **owner.where):
            if fact.name in hit.content:
                anchors[fact.name] = hit.anchor
                nodes |= {hit.id: fact.name} if hit.kind == "semantic" else {}
    assert {*nodes.values()} == {*anchors} == {fact.name for fact in FACTS}
    for reader in (reader for reader in READERS if reader.session != "elsewhere"):
        agent, expected = agents[reader.tenant], reader.expects(FACTS)
        for node, name in nodes.items():
            try:
                shown = await agent.inspection.memory_node(node, **reader.where)
                around = await agent.inspection.memory_neighbours(node, depth=6, **reader.where)
            except NotFound:
                assert name not in expected, (reader, name)
            else:
                assert name in expected, (reader, name)
                texts = " ".join(each.text for each in around.nodes)
                assert names_in(shown.text + texts) <= expected, (reader, name)
        for name, anchor in anchors.items():
            if reader.user is None and reader.session is None:
                continue  # whoever has the tenant's key reads its transcripts
            try:
                opened = await agent.inspection.expand(anchor, window=50, **reader.where)
            except NotFound:
                assert name not in expected, (reader, name)
            else:
                pieces = (*opened.before, opened.focus, *opened.after)
                assert names_in(" ".join(piece.content for piece in pieces)) <= expected, (reader, name)


async def recalled(agent: Agent, names: set[str], known: set[str], about: dict[str, Any]) -> set[str]:
    """The facts whose codes a new task's prompt quotes; none where the memory was too slow to tell all ``known``."""
    turn = agent.turn(f"What is my code for {' and for '.join(sorted(names))}?", **about)
    async for _ in turn:
        pass
    assert turn.task_id is not None
    messages = (await agent.inspection.transcript(turn.task_id)).messages
    quoted = [quote.text for m in messages if m.get("origin") == "recalled" for quote in quotes_in(m["content"])]
    told = codes_in(" ".join(quoted))
    return told if known <= told else set()


async def by_tool_and_prompt(agents: dict[str, Agent]) -> None:
    """What a model is told: by `memory_search` and `memory_expand`, and at the head of a new task's prompt."""
    anchors = {
        fact.name: (await agents[fact.tenant].inspection.search_memory(
            fact.text, limit=1, user_id=fact.user, session_id=fact.session
        ))[0].anchor
        for fact in FACTS
    }  # fmt: skip

    async def looks(reader: Reader) -> None:
        agent, expected = agents[reader.tenant], reader.expects(FACTS)
        reader = replace(reader, session=reader.session or f"new-of-{reader.user}")
        about: Any = {"session_id": reader.session, "user_id": reader.user, "task_id": "new"}
        order = json.dumps({"query": ALL_NAMES, "limit": 20})
        events = [event async for event in agent.send(f"[[memory_search {order}]]", **about)]
        told = " ".join(event.result or "" for event in events if event.type == "tool_result")
        assert codes_in(told), reader
        assert codes_in(told) <= expected, reader
        for fact in FACTS[:: len(FACTS) // 8]:
            order = json.dumps({"anchor": anchors[fact.name], "window": 20})
            events = [event async for event in agent.send(f"[[memory_expand {order}]]", **about)]
            [result] = [event for event in events if event.type == "tool_result"]
            assert (result.error is None) == (fact.name in expected), (reader, fact)
            assert codes_in(result.result or "") <= expected, (reader, fact)
        for fact in FACTS[:: len(FACTS) // 8]:
            names = {min(expected - {fact.name}), fact.name}
            known = names & expected
            quoted = await wait_until("a recall", lambda n=names, k=known: recalled(agent, n, k, about))  # type: ignore[misc]
            assert quoted <= expected, (reader, fact)

    at_a_desk = [reader for reader in READERS if reader.session == "desk-1" and reader.user in ("ada", None)]
    for reader in (*(reader for reader in READERS if reader.session is None), *at_a_desk):
        await looks(reader)


async def by_note(agents: dict[str, Agent]) -> None:
    """What a model notes by itself belongs to the user with whom it speaks, or to the session where nobody is named."""
    agent = agents["north"]
    notes = {"Zweifarbig": Reader("north", "ada"), "Zirkelquint": Reader("north", None, "desk-1")}

    async def found(note: str, reader: Reader) -> bool:
        hits = await agents[reader.tenant].inspection.search_memory(note, limit=100, kind="semantic", **reader.where)
        return note in " ".join(hit.content for hit in hits)

    for note, owner in notes.items():
        spelt = "".join(
            f"\\u{ord(letter):04x}" for letter in note
        )  # so that the note alone has the word, not the message
        session = owner.session or "home-of-ada"
        text = f'[[memory_note {{"text": "{spelt} is what is preferred here."}}]]'
        await agent.ask(text, session_id=session, user_id=owner.user, task_id="new")
    for note, owner in notes.items():
        await wait_until("the note to be learned", lambda n=note, who=owner: found(n, who), 60)  # type: ignore[misc]
        for reader in READERS:
            owns = reader.tenant == "north" and (reader.user == "ada" if owner.user else reader.session == "desk-1")
            assert await found(note, reader) == owns, (note, reader)


async def opens_all_that_it_names(agent: Agent, user: str) -> None:
    """What a user is shown of the graph rests on statements that he can open; both know the same name."""
    hits = await agent.inspection.search_memory("Kenzaburo Watanabe", limit=20, user_id=user, kind="semantic")
    around = [
        node for hit in hits for node in (await agent.inspection.memory_neighbours(hit.id, depth=3, user_id=user)).nodes
    ]
    assert "entity" in {node.kind for node in around}, "the name that both have said"
    for node in around:
        assert node.supports
        for support in node.supports:
            await agent.inspection.expand(support.anchor, user_id=user)


async def by_shared_task(agents: dict[str, Agent]) -> None:
    """Of a task in which two users have spoken each opens what is his own, and nothing of the other's around it."""
    agent = agents["north"]
    spoken = {
        "ada": "Quillamber is what I ordered from Kenzaburo Watanabe.",
        "bob": "Quortbronze is what I ordered from Kenzaburo Watanabe.",
    }
    task: str | None = "new"
    for user, text in spoken.items():
        turn = agent.turn(text, session_id="table", user_id=user, task_id=task)
        async for _ in turn:
            pass
        task = turn.task_id

    async def anchor_of(user: str) -> str:
        hits = await agent.inspection.search_memory(spoken[user], limit=5, user_id=user, kind="episodic")
        return next((hit.anchor for hit in hits if hit.content == spoken[user]), "")

    words = {user: text.split()[0] for user, text in spoken.items()}
    for user, other in (("ada", "bob"), ("bob", "ada")):
        anchor = await wait_until("what was said to be remembered", lambda who=user: anchor_of(who), 60)  # type: ignore[misc]
        opened = await agent.inspection.expand(anchor, window=50, user_id=user, session_id="table")
        shown = " ".join(piece.content for piece in (*opened.before, opened.focus, *opened.after))
        assert words[user] in shown
        assert words[other] not in shown, (user, shown)
        order = json.dumps({"anchor": anchor, "window": 20})
        sent = agent.send(f"[[memory_expand {order}]]", session_id="table", user_id=user, task_id="new")
        [result] = [event async for event in sent if event.type == "tool_result"]
        assert words[user] in (result.result or "")
        assert words[other] not in (result.result or ""), (user, result.result)
        hits = await agent.inspection.search_memory(
            " ".join(spoken.values()), limit=100, kind="working", user_id=user, session_id="table"
        )
        shown = " ".join(hit.content for hit in hits)
        assert words[user] in shown
        assert words[other] not in shown, (user, shown)
        await opens_all_that_it_names(agent, user)


async def test_each_finds_what_is_his_by_every_route_tool_and_prompt_and_nothing_crosses(tmp_path: Path) -> None:
    """Law 13: a memory belongs to the user who is named, else to its session alone, and no query crosses."""
    assert len(FACTS) == 40
    async with ScriptedModel(obey) as model:
        environment = {
            "PENTAD_API_KEYS": ",".join(f"{tenant}-key:{tenant}" for tenant in TENANTS),
            "LLM_BASE_URL": model.base_url,
            "PENTAD_TASKS_PER_SESSION": "100",
            "PENTAD_EXTRACT": "never",  # what is stated is known at a task's end, by rule
        }
        with Up(tmp_path, environment) as up:
            url = await up.ready()
            async with connect(url, "north-key") as north, connect(url, "south-key") as south:
                agents = {"north": north, "south": south}
                await teach(agents)
                await by_rest(agents)
                await by_node_and_anchor(agents)
                await by_tool_and_prompt(agents)
                await by_note(agents)
                await by_shared_task(agents)


async def test_the_commands_speak_as_who_is_logged_in_so_that_the_cat_is_found_from_another_session(
    tmp_path: Path,
) -> None:
    """README and docs/memory.md: `pentad send`, `memory search` and `memory show` name the person by themselves."""
    with Up(tmp_path, {"PENTAD_MEMORY_SCOPE": "session"}) as up:
        url = await up.ready()

        def ran(*args: str) -> str:
            done = pentad(up, *args)
            assert done.returncode == 0, done.stderr
            return done.stdout

        async def finds(*more: str) -> bool:
            return "Mimi" in await asyncio.to_thread(ran, "memory", "search", "what is my cat called", *more)

        await asyncio.to_thread(ran, "send", "my cat is called Mimi")
        await wait_until("the cat to be found", finds)
        assert "Mimi" in await asyncio.to_thread(ran, "send", "what is my cat called?")
        assert "Mimi" not in await asyncio.to_thread(ran, "send", "--user", "somebody", "what is my cat called?")
        assert not await finds("--user", "somebody")
        async with connect(url) as nobody:
            assert await nobody.inspection.search_memory("what is my cat called") == []
            assert "Mimi" not in await nobody.ask("what is my cat called?")
