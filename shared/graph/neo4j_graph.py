"""The store of the graph that is a Neo4j server, 5 or newer, also of the Community edition."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.event_loop import GroupedCalls
from pentad.shared.graph import cypher
from pentad.shared.graph.graph_limits import (
    MOST_ASKED,
    check_anchors,
    check_edges,
    check_found,
    check_identifier,
    check_ids,
    check_links,
    check_nodes,
    check_time,
    check_user,
)
from pentad.shared.graph.knowledge import (
    NAMING_KINDS,
    BareEdge,
    EdgeType,
    GraphCondition,
    MemoryEdge,
    MemoryNode,
    Tally,
    WalkedEdge,
)
from pentad.shared.graph.merging import merged_edges, merged_nodes, normal_name
from pentad.shared.graph.neo4j_rows import (
    TASK,
    USER,
    bare_from,
    edge_from,
    holder_text,
    key_of,
    link_from,
    node_from,
    node_row,
    users_of,
)
from pentad.shared.graph.neo4j_schema import Neo4jSchema, put_edges, put_nodes
from pentad.shared.graph.neo4j_session import Neo4jSession, rows
from pentad.shared.owners import Owner

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

_NODES_PER_REMOVAL = 2000
"""Nodes that one transaction removes while a tenant is removed."""


class Neo4jGraph:
    """The port `Graph` for a server that many processes use. The driver is loaded and connects at the first use."""

    def __init__(
        self, uri: str, username: str | None = None, password: str | None = None, timeout_s: float = 10.0
    ) -> None:
        """``timeout_s`` bounds each call. Raises ``SettingsError`` for what is no address."""
        self._session = Neo4jSession(uri, username, password, timeout_s)
        self._schema = Neo4jSchema(self._session)
        self._read = GroupedCalls(
            self._nodes_of, MOST_ASKED, weight=lambda asked: len(asked[1]), refusal=MemoryRefusedError
        )

    async def prepare(self) -> None:
        await self._schema.prepare()

    async def condition(self) -> GraphCondition:
        """Return the store's identity and number of nodes; it counts no writes. Raises ``MemoryOutageError``."""
        await self._schema.ensure()
        [store] = await self._change(cypher.IDENTITY)
        [size] = await self._ask(cypher.SIZE)
        return GraphCondition(store["identity"], None, 0, size["found"])

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        check_nodes(nodes)
        given = [node_row(node) for node in merged_nodes(nodes)]
        if given:
            await self._schema.ensure()
            await self._session.merge(lambda tx: put_nodes(tx, given))

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        check_edges(edges)
        given = merged_edges(edges)
        if given:
            await self._schema.ensure()
            await self._session.merge(lambda tx: put_edges(tx, given))

    async def nodes(self, owner: Owner, ids: Sequence[str]) -> list[MemoryNode]:
        check_ids(ids)
        return [node_from(kept) for kept in await self._read.call((owner, ids))] if ids else []

    async def edges(self, owner: Owner, ids: Sequence[str], limit: int) -> list[MemoryEdge]:
        check_ids(ids)
        check_found(limit)
        return [edge_from(row) for row in await self._ask(cypher.EDGES, **_about(owner, ids), limit=limit)]

    async def links(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[WalkedEdge]:
        check_links(ids, limit, as_of)
        wanted = _wanted(types, as_of)
        found = await self._ask(cypher.LINKS, **_about(owner, ids), limit=limit, **wanted)
        return [link_from(row) for row in found]

    async def between(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[BareEdge]:
        check_links(ids, limit, as_of)
        found = await self._ask(cypher.BETWEEN, **_about(owner, ids), limit=limit, **_wanted(types, as_of))
        return [bare_from(row) for row in found]

    async def named(self, owner: Owner, names: Sequence[str]) -> list[MemoryNode]:
        wanted = [normal_name(name) for name in names]
        check_ids([name for name in wanted if name])
        found = await self._ask(cypher.NAMED, tenant=owner.tenant, users=users_of(owner), names=wanted)
        return [node_from(row["kept"]) for row in found]

    async def end(self, owner: Owner, ids: Sequence[str], at: int) -> None:
        check_ids(ids)
        check_time(at)
        await self._change(cypher.END, **_about(owner, ids), at=at)

    async def remove(self, owner: Owner, ids: Sequence[str]) -> None:
        check_ids(ids)
        await self._change(cypher.REMOVE, **_about(owner, ids))

    async def retain(self, tenant: str, task: str, anchors: Sequence[str]) -> None:
        check_identifier(tenant)
        check_identifier(task)
        check_anchors(anchors)
        await self._session.write(lambda tx: _take_away(tx, tenant, TASK, task, anchors))

    async def forget_task(self, tenant: str, task: str) -> None:
        check_identifier(tenant)
        check_identifier(task)
        await self._session.write(lambda tx: _take_away(tx, tenant, TASK, task))

    async def forget_user(self, tenant: str, user: str) -> None:
        check_identifier(tenant)
        check_user(user)
        await self._session.write(lambda tx: _remove_user(tx, tenant, user))

    async def forget_tenant(self, tenant: str) -> None:
        check_identifier(tenant)
        while (await self._change(cypher.REMOVE_SOME, tenant=tenant, limit=_NODES_PER_REMOVAL))[0]["removed"]:
            pass

    async def tally(self, tenant: str) -> Tally:
        check_identifier(tenant)
        [row] = await self._ask(cypher.TALLY, tenant=tenant, naming=[*NAMING_KINDS])
        return Tally(row["nodes"], row["edges"], row["names"])

    async def node_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryNode]:
        check_identifier(tenant)
        check_found(limit)
        found = await self._ask(cypher.NODE_PAGE, tenant=tenant, limit=limit, after=after)
        return [node_from(row["kept"]) for row in found]

    async def edge_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryEdge]:
        check_identifier(tenant)
        check_found(limit)
        found = await self._ask(cypher.EDGE_PAGE, tenant=tenant, limit=limit, after=after)
        return [edge_from(row) for row in found]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def _nodes_of(self, asked: Sequence[tuple[Owner, Sequence[str]]]) -> list[list[dict[str, Any]]]:
        """Return the properties of the nodes that each owner asks for and sees. A transaction costs more than nodes."""
        wanted = [
            {"tenant": owner.tenant, "users": users_of(owner), "key": key_of(owner.tenant, identifier)}
            for owner, ids in asked
            for identifier in ids
        ]
        found = [row["kept"] for row in await self._ask(cypher.NODES, asked=wanted)]
        answers = []
        for owner, ids in asked:
            keys, users = {key_of(owner.tenant, identifier) for identifier in ids}, users_of(owner)
            answers.append([kept for kept in found if kept["key"] in keys and kept["user"] in users])
        return answers

    async def _ask(self, query: str, **given: Any) -> list[dict[str, Any]]:
        return await self._session.read(lambda tx: rows(tx, query, **given))

    async def _change(self, query: str, **given: Any) -> list[dict[str, Any]]:
        return await self._session.write(lambda tx: rows(tx, query, **given))


def _about(owner: Owner, ids: Sequence[str]) -> dict[str, Any]:
    """Return the parameters for nodes that the owner sees."""
    keys = [key_of(owner.tenant, identifier) for identifier in ids]
    return {"tenant": owner.tenant, "users": users_of(owner), "keys": keys}


def _wanted(types: Sequence[EdgeType], as_of: int | None) -> dict[str, Any]:
    return {"types": [cypher.relationship(kind) for kind in types], "as_of": as_of}


async def _take_away(
    tx: "AsyncManagedTransaction", tenant: str, place: int, value: str, kept: Sequence[str] = ()
) -> None:
    for query in (cypher.TAKE_FROM_EDGES, cypher.TAKE_FROM_NODES):
        await rows(tx, query, tenant=tenant, place=place, value=value, kept=list(kept))


async def _remove_user(tx: "AsyncManagedTransaction", tenant: str, user: str) -> None:
    for query in (cypher.REMOVE_USERS_EDGES, cypher.REMOVE_USERS_NODES):
        await rows(tx, query, tenant=tenant, user=user)
    await _take_away(tx, tenant, USER, holder_text(user))
