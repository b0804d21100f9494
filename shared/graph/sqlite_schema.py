"""The tables of the graph in SQLite. ``user`` is the holder (`Owner.holder`), empty for what the tenant shares."""

VERSION = 1
"""Version that is stored in ``user_version``: files of a newer version are not touched."""

TABLES = """
CREATE TABLE IF NOT EXISTS node (
    key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, user TEXT NOT NULL, rank TEXT NOT NULL,
    kind TEXT NOT NULL, text TEXT NOT NULL, name TEXT NOT NULL, importance REAL NOT NULL, learned_at INTEGER NOT NULL,
    true_from INTEGER, true_until INTEGER, merged_into TEXT, UNIQUE (tenant, id)
);
CREATE INDEX IF NOT EXISTS node_name ON node (tenant, name);
CREATE INDEX IF NOT EXISTS node_user ON node (tenant, user);
CREATE TABLE IF NOT EXISTS edge (
    key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, user TEXT NOT NULL, source TEXT NOT NULL,
    target TEXT NOT NULL, type TEXT NOT NULL, weight REAL NOT NULL, learned_at INTEGER NOT NULL, true_from INTEGER,
    true_until INTEGER, UNIQUE (tenant, id)
);
CREATE INDEX IF NOT EXISTS edge_source ON edge (tenant, source, user, type, target, weight, true_from, true_until);
CREATE INDEX IF NOT EXISTS edge_target ON edge (tenant, target, user, type, source, weight, true_from, true_until);
CREATE INDEX IF NOT EXISTS edge_user ON edge (tenant, user);
CREATE TABLE IF NOT EXISTS node_support (
    key INTEGER NOT NULL REFERENCES node ON DELETE CASCADE, tenant TEXT NOT NULL, anchor TEXT NOT NULL,
    task TEXT NOT NULL, user TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (key, anchor, task, user, at)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS node_support_task ON node_support (tenant, task);
CREATE INDEX IF NOT EXISTS node_support_user ON node_support (tenant, user);
CREATE TABLE IF NOT EXISTS edge_support (
    key INTEGER NOT NULL REFERENCES edge ON DELETE CASCADE, tenant TEXT NOT NULL, anchor TEXT NOT NULL,
    task TEXT NOT NULL, user TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (key, anchor, task, user, at)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS edge_support_task ON edge_support (tenant, task);
CREATE INDEX IF NOT EXISTS edge_support_user ON edge_support (tenant, user);
"""

ADDED = dict.fromkeys(("node", "edge"), ("metadata TEXT", "metadata_rank TEXT"))
"""Columns that were added later. The version stays: a version that does not know them still reads and writes the
others."""

COUNTS = """
CREATE TABLE IF NOT EXISTS counts (what TEXT PRIMARY KEY, n INTEGER NOT NULL, told TEXT NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counts VALUES
    ('written', (SELECT count(*) FROM node) + (SELECT count(*) FROM edge), ''), ('removed', 0, ''),
    ('identity', 0, lower(hex(randomblob(16))));
""" + "".join(
    f"""
CREATE TRIGGER IF NOT EXISTS {table}_written AFTER INSERT ON {table}
    BEGIN UPDATE counts SET n = n + 1 WHERE what = 'written'; END;
CREATE TRIGGER IF NOT EXISTS {table}_removed AFTER DELETE ON {table}
    BEGIN UPDATE counts SET n = n + 1 WHERE what = 'removed'; END;
"""
    for table in ("node", "edge")
)
"""Counters of written and removed rows, updated by triggers within each transaction, whichever version runs it."""
HAS_COUNTS = "SELECT count(*) FROM sqlite_master WHERE name IN ('counts', 'node_written', 'edge_written')"

_IS_NEWER = "excluded.metadata_rank > coalesce(metadata_rank, '')"
_LATEST = f"""
    metadata = iif({_IS_NEWER}, excluded.metadata, metadata),
    metadata_rank = iif({_IS_NEWER}, excluded.metadata_rank, metadata_rank)"""

PUT_NODE = f"""
INSERT INTO node (
    tenant, id, user, rank, kind, text, name, importance, learned_at, true_from, true_until, merged_into, metadata,
    metadata_rank
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
    kind = iif(excluded.rank < rank, excluded.kind, kind), text = iif(excluded.rank < rank, excluded.text, text),
    name = iif(excluded.rank < rank, excluded.name, name),
    learned_at = min(learned_at, excluded.learned_at), rank = min(rank, excluded.rank),
    importance = max(importance, excluded.importance),
    true_from = coalesce(min(true_from, excluded.true_from), true_from, excluded.true_from),
    true_until = coalesce(min(true_until, excluded.true_until), true_until, excluded.true_until),
    merged_into = coalesce(min(merged_into, excluded.merged_into), merged_into, excluded.merged_into),{_LATEST}
WHERE user = excluded.user RETURNING key
"""
PUT_EDGE = f"""
INSERT INTO edge (
    tenant, id, user, source, target, type, weight, learned_at, true_from, true_until, metadata, metadata_rank
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
    weight = max(weight, excluded.weight), learned_at = min(learned_at, excluded.learned_at),
    true_from = coalesce(min(true_from, excluded.true_from), true_from, excluded.true_from),
    true_until = coalesce(min(true_until, excluded.true_until), true_until, excluded.true_until),{_LATEST}
RETURNING key
"""
PUT_SUPPORT = "INSERT OR IGNORE INTO {}_support (key, tenant, anchor, task, user, at) VALUES (?, ?, ?, ?, ?, ?)"
ENDS = "SELECT count(*) FROM node WHERE tenant = ? AND id IN (?, ?) AND user IN ('', ?)"

NODE = (
    "SELECT key, tenant, user, id, kind, text, importance, learned_at, true_from, true_until, merged_into, metadata, "
    "metadata_rank FROM node"
)
EDGE = (
    "SELECT key, tenant, user, source, target, type, weight, learned_at, true_from, true_until, metadata, "
    "metadata_rank FROM edge"
)
SUPPORTS = "SELECT key, anchor, task, user, at FROM {}_support WHERE key IN (SELECT value FROM json_each(?))"
AMONG = "(SELECT value FROM json_each(?))"

LINKS = """
SELECT source, target, type, max(weight) AS weight FROM (
    SELECT source, target, type, weight FROM edge
    WHERE tenant = :tenant AND source IN (SELECT value FROM json_each(:ids))
        AND user IN (SELECT value FROM json_each(:users)) %s
    UNION ALL
    SELECT source, target, type, weight FROM edge
    WHERE tenant = :tenant AND target IN (SELECT value FROM json_each(:ids))
        AND user IN (SELECT value FROM json_each(:users)) %s
) GROUP BY source, target, type ORDER BY weight DESC, source, target, type LIMIT :limit
"""
BETWEEN = """
SELECT user, source, target, type, weight, metadata, metadata_rank FROM edge
WHERE tenant = :tenant AND source IN (SELECT value FROM json_each(:ids))
    AND target IN (SELECT value FROM json_each(:ids)) AND user IN (SELECT value FROM json_each(:users)) %s
ORDER BY weight DESC, source, target, type, user LIMIT :limit
"""
OF_TYPES = "AND type IN (SELECT value FROM json_each(:types))"
AT_THE_TIME = "AND coalesce(true_from, 0) <= :as_of AND coalesce(true_until, :as_of + 1) > :as_of"
