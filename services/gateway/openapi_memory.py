"""Long-term memory in the OpenAPI document."""

from pentad.contracts.memories import MemoryKind
from pentad.services.gateway.openapi_words import Json, gives, object_of, operation, query, ref

_EXPANSION: Json = {
    "type": "object",
    "properties": {
        "anchor": {"type": "string", "description": "the `anchor` of a hit"},
        "window": {
            "type": "integer",
            "minimum": 0,
            "maximum": 50,
            "description": "segments on each side; 2 when missing",
        },
        "user_id": ref("ExternalId") | {"description": "with it, or a session, only what they see is shown"},
        "session_id": ref("ExternalId"),
    },
    "required": ["anchor"],
}
_KIND: Json = query("kind", "string", "`working`, `episodic` or `semantic`; the last two when missing") | {
    "schema": {"enum": list(MemoryKind)}
}
_SESSION = query("session_id", "string", "the conversation whose working memory is meant; needed with that kind")
_READS_SESSION = query(
    "session_id",
    "string",
    "finds what was said in this session without a user, too; with kind `working`: the conversation, needed",
)
_EPISODE: Json = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "at most 65,536 characters"},
        "user_id": ref("ExternalId") | {"description": "who said it; shared by all of the tenant when missing"},
        "at": {"type": "string", "format": "date-time", "description": "when; now when missing"},
    },
    "required": ["text"],
}
_WHEN: Json = {"type": "string", "format": "date-time"}
_FORGETTING: Json = {
    "type": "object",
    "description": "at least one of the first five; meant is what meets all that are given",
    "properties": {
        "ids": {"type": "array", "items": {"type": "string"}, "maxItems": 100, "description": "the `id` of hits"},
        "task_id": ref("Id"),
        "since": _WHEN,
        "until": _WHEN | {"description": "the first moment that is not meant any more"},
        "importance_below": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "kind": {"enum": ["episodic", "semantic"], "description": "what was said, or what is known; both when missing"},
        "user_id": ref("ExternalId") | {"description": "of this user alone"},
        "cursor": {"type": "string", "description": "`next` of the answer before"},
    },
}
_UNDO: Json = {
    "type": "object",
    "required": ["anchor"],
    "properties": {
        "anchor": {"type": "string", "description": "the one that the model has given to `memory_forget`"},
        "user_id": ref("ExternalId") | {"description": "of this user alone"},
    },
}
_FORGOTTEN = object_of(forgotten={"type": "integer"}, next={"type": ["string", "null"]})
_REINDEXING: Json = {
    "type": "object",
    "properties": {
        "cursor": {"type": "string", "description": "`next` of the answer before"},
        "queue": {"type": "boolean", "description": "have an archiver embed those that are left; else only look"},
        "switch": {"type": "boolean", "description": "let the model in use's collection count, if it lacks nothing"},
        "force": {"type": "boolean", "description": "switch although it lacks something; the other one is kept"},
    },
}
_REINDEXED = object_of(
    collection={"type": "string"},
    current={"type": "string"},
    tasks={"type": "integer"},
    left={"type": "integer"},
    next={"type": ["string", "null"]},
    kept={"type": ["string", "null"], "description": "a collection that has more than the one that counts"},
    waits_for={"type": ["string", "null"], "description": "what an archiver waits for before it embeds what is left"},
)


def memory_paths() -> dict[str, Json]:
    """The routes of long-term memory."""
    needed = query("q", "string", "the question", minLength=1, maxLength=2000) | {"required": True}
    return {
        "/v1/memory/search": {
            "get": operation(
                "What was said in finished tasks that a question is about, the best first",
                needed,
                query("limit", "integer", "hits; 10 when missing", minimum=1, maximum=100),
                query("user_id", "string", "finds this user's memories too, beside what the tenant shares"),
                query("as_of", "string", "RFC 3339: what had been said and was true then; else what is still true"),
                query(
                    "strategy",
                    "string",
                    "how the graph is walked from what was found: `bfs`, `dfs`, `astar` from hits that are nodes "
                    "and from names in the best hits; `none`: not; `auto` (when missing): from hits that are nodes, if "
                    "some are among the best. When it is given, `tasks` says which tasks all of it is from",
                ),
                query("depth", "integer", "edges of a walk that is asked for; 2 when missing", minimum=0, maximum=6),
                _KIND,
                _READS_SESSION,
                problems=(422,),
                _200=gives("", ref("RecalledMemories")),
            )
        },
        "/v1/memory/expand": {
            "post": operation(
                "The very words that an anchor points at, and what stands before and after them in their task",
                problems=(400, 404, 410, 413, 415, 422),
                _200=gives("", ref("OpenedAnchor")),
            )
            | {"requestBody": {"required": True, "content": {"application/json": {"schema": _EXPANSION}}}}
        },
        "/v1/memory/forget": {
            "post": operation(
                "Let what was said, and what is known, not be found any more. One request looks at 1,000 segments, or "
                "200 nodes; go on while `next` is there",
                problems=(400, 413, 415, 422),
                _202=gives("how many of them were forgotten, and where to go on", _FORGOTTEN),
            )
            | {"requestBody": {"required": True, "content": {"application/json": {"schema": _FORGETTING}}}}
        },
        "/v1/memory/unforget": {
            "post": operation(
                "Let be found again what a model has had forgotten (`memory_forget`) within the last day. It comes "
                "back from the records a moment later",
                problems=(400, 404, 413, 415, 422),
                _202=gives("how many memories come back", object_of(restored={"type": "integer"})),
            )
            | {"requestBody": {"required": True, "content": {"application/json": {"schema": _UNDO}}}}
        },
        "/v1/memory/reindex": {
            "post": operation(
                "Have the memory embedded anew with the model in use, 500 tasks a request; go on while `next` is "
                "there. With `switch` what was embedded counts from now on, and what was there before is removed if it "
                "lacks nothing of any tenant (else 409). "
                "Needs the admin key, PENTAD_ADMIN_KEY, as a bearer token",
                problems=(400, 409, 413, 415, 422),
                _202=gives("how many of these tasks are left, and where to go on", _REINDEXED),
            )
            | {"requestBody": {"required": True, "content": {"application/json": {"schema": _REINDEXING}}}}
        },
        "/v1/memory/rebuild": {
            "post": operation(
                "Have the memory of all tenants rebuilt from their records and from the tasks in Redis, where its "
                "stores were emptied or damaged. One that goes on is gone on with. Needs the admin key, "
                "PENTAD_ADMIN_KEY, as a bearer token",
                _202=gives("how far it is", ref("MemoryRebuild")),
            ),
            "get": operation(
                "How far a rebuild of the memory is, and what is wrong with its stores. Needs the admin key, "
                "PENTAD_ADMIN_KEY, as a bearer token",
                _200=gives("", ref("MemoryRebuild")),
            ),
        },
        "/v1/memory/stats": {
            "get": operation(
                "How much is remembered. With `kind` the figures of that alone",
                _KIND,
                _SESSION,
                problems=(422,),
                _200=gives("", ref("MemoryStats")),
            )
        },
        "/v1/memory/episodes": {
            "post": operation(
                "Keep what was said elsewhere: it is found a moment later. With the same time it is the same one",
                problems=(400, 413, 415, 422),
                _202=gives("where it is", ref("KeptEpisode")),
            )
            | {"requestBody": {"required": True, "content": {"application/json": {"schema": _EPISODE}}}}
        },
    }
