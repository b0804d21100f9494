"""The graph in Cypher: nodes with the label ``Memory``, relationships with the type's name. Every value is a parameter.

``user`` is the holder (`Owner.holder`), empty for what the tenant shares.
What a node or relationship rests on is a list of texts, see `neo4j_rows`.
"""

from pentad.shared.graph.knowledge import EdgeType

_INDEX = "CREATE INDEX memory_{0} IF NOT EXISTS FOR (n:Memory) ON (n.tenant, n.{0})"
SCHEMA: dict[tuple[str, tuple[str, ...], bool], str] = {
    ("Memory", ("key",), True): "CREATE CONSTRAINT memory_key IF NOT EXISTS FOR (n:Memory) REQUIRE n.key IS UNIQUE",
    ("MemoryStore", ("name",), True): """
        CREATE CONSTRAINT memory_store IF NOT EXISTS FOR (s:MemoryStore) REQUIRE s.name IS UNIQUE""",
    **{("Memory", ("tenant", name), False): _INDEX.format(name) for name in ("name", "user", "id")},
}
"""Statements that make the constraints and indexes; by label, properties, and whether it is a constraint."""
INDEXES = """
SHOW INDEXES YIELD type, labelsOrTypes, properties, owningConstraint WHERE type = 'RANGE'
RETURN labelsOrTypes[0] AS label, properties, owningConstraint IS NOT NULL AS unique
"""
"""The constraints, each of which has an index, and the other indexes."""
AWAIT_INDEXES = "CALL db.awaitIndexes($seconds)"

REPEATED_KEYS = """
MATCH (n:Memory) WITH n.key AS key, count(*) AS number WHERE number > 1
RETURN key ORDER BY key LIMIT $limit
"""
"""Keys that several nodes have, which can only be where nodes were written before the constraint was there."""
REPEATED_NODES = "MATCH (n:Memory) WHERE n.key IN $keys RETURN properties(n) AS kept"
REPEATED_EDGES = """
MATCH (n:Memory)-[r]-(:Memory) WHERE n.key IN $keys
WITH DISTINCT r
RETURN properties(r) AS kept, startNode(r).id AS source, endNode(r).id AS target, type(r) AS type
"""
REMOVE_REPEATED = "MATCH (n:Memory) WHERE n.key IN $keys DETACH DELETE n"
REMOVE_OTHER_IDENTITIES = "MATCH (s:MemoryStore) WITH s ORDER BY s.identity SKIP 1 DETACH DELETE s"

_IS_NEWER = "row.metadata_rank > coalesce({0}.metadata_rank, '') AS is_newer"
_LATEST = "{0} += CASE WHEN is_newer THEN {{metadata: row.metadata, metadata_rank: row.metadata_rank}} ELSE {{}} END"

_EARLIEST = """
    {0}.true_from = CASE WHEN {0}.true_from IS NULL OR row.true_from < {0}.true_from
        THEN coalesce(row.true_from, {0}.true_from) ELSE {0}.true_from END,
    {0}.true_until = CASE WHEN {0}.true_until IS NULL OR row.true_until < {0}.true_until
        THEN coalesce(row.true_until, {0}.true_until) ELSE {0}.true_until END,
    {0}.supports = {0}.supports + [s IN row.supports WHERE NOT s IN {0}.supports]
"""
"""Assignments that nodes and edges have in common."""

PUT_NODES = f"""
UNWIND $rows AS row
MERGE (n:Memory {{key: row.key}})
ON CREATE SET n += row.said, n.tenant = row.tenant, n.id = row.id, n.user = row.user,
    n.importance = row.importance, n.supports = []
WITH n, row, row.said.rank < n.rank AS is_older, {_IS_NEWER.format("n")}
SET n += CASE WHEN is_older THEN row.said ELSE {{}} END,
    n.importance = CASE WHEN row.importance > n.importance THEN row.importance ELSE n.importance END,
    n.merged_into = CASE WHEN n.merged_into IS NULL OR row.merged_into < n.merged_into
        THEN coalesce(row.merged_into, n.merged_into) ELSE n.merged_into END,
    {_LATEST.format("n")},
    {_EARLIEST.format("n")}
WITH n, row WHERE n.user <> row.user
RETURN n.id AS id LIMIT 1
"""
"""Writes nodes; returns a node that another owner has: then the transaction must be rolled back."""

_PUT_EDGES = """
UNWIND $rows AS row
MATCH (a:Memory {{key: row.source_key}}), (b:Memory {{key: row.target_key}})
USING INDEX a:Memory(key) USING INDEX b:Memory(key)
WHERE a.tenant = row.tenant AND b.tenant = row.tenant AND a.user IN ['', row.user] AND b.user IN ['', row.user]
MERGE (a)-[r:{type} {{key: row.key}}]->(b)
ON CREATE SET r.tenant = row.tenant, r.user = row.user, r.weight = row.weight, r.learned_at = row.learned_at,
    r.supports = []
WITH r, row, {is_newer}
SET r.weight = CASE WHEN row.weight > r.weight THEN row.weight ELSE r.weight END,
    r.learned_at = CASE WHEN row.learned_at < r.learned_at THEN row.learned_at ELSE r.learned_at END,
    {latest},
    {merged}
RETURN count(*) AS written
"""
"""Writes edges. The indexes are named, because what is planned while the graph is empty goes through all nodes of the
tenant for each edge, and is kept for a while."""

NODES = """
UNWIND $asked AS one
MATCH (n:Memory {key: one.key}) USING INDEX n:Memory(key)
WHERE n.tenant = one.tenant AND n.user IN one.users
WITH DISTINCT n
RETURN properties(n) AS kept ORDER BY n.id
"""
"""Reads nodes, those of many questions together."""
NAMED = """
MATCH (n:Memory) WHERE n.tenant = $tenant AND n.name IN $names AND n.user IN $users
RETURN properties(n) AS kept ORDER BY n.id
"""
_TOUCHING = """
MATCH (n:Memory)-[r]-(:Memory)
WHERE n.tenant = $tenant AND n.key IN $keys AND r.tenant = $tenant AND r.user IN $users
"""
_WANTED = """(size($types) = 0 OR type(r) IN $types)
    AND ($as_of IS NULL OR (coalesce(r.true_from, 0) <= $as_of AND coalesce(r.true_until, $as_of + 1) > $as_of))"""
_ENDS = "startNode(r).id AS source, endNode(r).id AS target, type(r) AS type"
EDGES = f"""
{_TOUCHING}
WITH DISTINCT r
RETURN properties(r) AS kept, {_ENDS}, r.user AS user
ORDER BY r.weight DESC, source, target, toLower(type), user LIMIT $limit
"""
LINKS = f"""
{_TOUCHING} AND {_WANTED}
WITH {_ENDS}, max(r.weight) AS weight
RETURN source, target, type, weight ORDER BY weight DESC, source, target, toLower(type) LIMIT $limit
"""
BETWEEN = f"""
MATCH (n:Memory)-[r]->(m:Memory)
WHERE n.tenant = $tenant AND n.key IN $keys AND m.key IN $keys AND r.tenant = $tenant AND r.user IN $users
    AND {_WANTED}
RETURN properties(r) AS kept, {_ENDS}, r.user AS user
ORDER BY r.weight DESC, source, target, toLower(type), user LIMIT $limit
"""
NODE_PAGE = """
MATCH (n:Memory) WHERE n.tenant = $tenant AND n.id > $after
RETURN properties(n) AS kept ORDER BY n.id LIMIT $limit
"""
EDGE_PAGE = f"""
MATCH (n:Memory)-[r]->(:Memory) WHERE n.tenant = $tenant AND r.tenant = $tenant AND r.key > $after
RETURN properties(r) AS kept, {_ENDS} ORDER BY r.key LIMIT $limit
"""
IDENTITY = "MERGE (s:MemoryStore {name: 'graph'}) ON CREATE SET s.identity = randomUUID() RETURN s.identity AS identity"
SIZE = "MATCH (n:Memory) RETURN count(n) AS found"

TALLY = """
MATCH (n:Memory) WHERE n.tenant = $tenant
RETURN count(n) AS nodes, sum(COUNT {(n)-[{tenant: $tenant}]->(:Memory)}) AS edges,
    sum(CASE WHEN n.kind IN $naming THEN 1 ELSE 0 END) AS names
"""

END = """
MATCH (n:Memory) WHERE n.tenant = $tenant AND n.key IN $keys AND n.user IN $users
SET n.true_until = CASE WHEN n.true_until < $at THEN n.true_until ELSE $at END
"""
REMOVE = "MATCH (n:Memory) WHERE n.tenant = $tenant AND n.key IN $keys AND n.user IN $users DETACH DELETE n"
_ANCHOR = "substring(s, size(split(s, '|')[0]) + size(split(s, '|')[1]) + size(split(s, '|')[2]) + 3)"
_TAKEN = f"split(s, '|')[$place] = $value AND NOT {_ANCHOR} IN $kept"
TAKE_FROM_EDGES = f"""
MATCH (n:Memory)-[r]->(:Memory)
WHERE n.tenant = $tenant AND r.tenant = $tenant AND any(s IN r.supports WHERE {_TAKEN})
SET r.supports = [s IN r.supports WHERE NOT ({_TAKEN})]
WITH r WHERE size(r.supports) = 0
DELETE r
"""
TAKE_FROM_NODES = f"""
MATCH (n:Memory) WHERE n.tenant = $tenant AND any(s IN n.supports WHERE {_TAKEN})
SET n.supports = [s IN n.supports WHERE NOT ({_TAKEN})]
WITH n WHERE size(n.supports) = 0
DETACH DELETE n
"""
REMOVE_USERS_EDGES = "MATCH (n:Memory)-[r]->(:Memory) WHERE n.tenant = $tenant AND r.user = $user DELETE r"
REMOVE_USERS_NODES = "MATCH (n:Memory) WHERE n.tenant = $tenant AND n.user = $user DETACH DELETE n"
REMOVE_SOME = "MATCH (n:Memory) WHERE n.tenant = $tenant WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS removed"


def relationship(edge_type: EdgeType) -> str:
    """Return a type's name in Neo4j."""
    return edge_type.value.upper()


_OF_EDGES = {"is_newer": _IS_NEWER.format("r"), "latest": _LATEST.format("r"), "merged": _EARLIEST.format("r")}
PUT_EDGES = {kind: _PUT_EDGES.format(type=relationship(kind), **_OF_EDGES) for kind in EdgeType}
"""Statements that write edges, by type: a type cannot be a parameter in every version of Cypher."""
