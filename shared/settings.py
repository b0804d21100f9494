"""All settings, read from the environment once, here and nowhere else."""

import os
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from pentad.contracts.dates import zone_of
from pentad.contracts.graphs import Runnable
from pentad.contracts.ids import is_identifier
from pentad.contracts.instructions import MAX_ANSWER_TOKENS
from pentad.contracts.models import (
    MAX_CONTEXT_TOKENS,
    MIN_CONTEXT_TOKENS,
    ModelEntry,
    ThinkTagsHabit,
    is_model_key_name,
)
from pentad.contracts.tools import ApprovalMode
from pentad.shared.addresses import check_redis_url, read_http_url
from pentad.shared.errors import SettingsError

VARIABLE_PREFIX = "PENTAD_"
"""Begins the names of the variables that only Pentad has."""
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|https?://\[[0-9A-Fa-f:]{2,45}\](:[0-9]{1,5})?")
_QUEUE_NAME = re.compile(r"[a-z0-9-]{1,32}")
_MAX_QUEUES = 64
"""Queues that one tool-worker may be told to serve: each costs it a connection."""
_HOST = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[1-9][0-9]{0,4})?")
_DAY_S = 86_400
_SESSION_TTL_S = 30 * _DAY_S
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]{0,127}")
_LANGUAGE = "LC_"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_FOR_EVERY_PROGRAM = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", *_CERTIFICATES, *_PROXIES, *(p.lower() for p in _PROXIES)}
)
"""Variables that tools see in any case: none of them is a secret of ours."""
_FOR_EVERY_SERVER = ("PATH", "HOME")
"""Variables that programs see which serve tools; all others are named where the program is."""
_KEY = re.compile(r"[!-9;-~]+")
_SECRET_KEY_BYTES = 32
_GATEWAY_SECRETS = ("pentad_admin_key", "pentad_metrics_key", "pentad_api_keys")
"""Settings of the gateway that no other service needs."""


class Settings(BaseModel):
    """One process's settings. Field names are the variables' names in lower case."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    llm_model_id: str | None = None
    """The chat model; unset: the first that the endpoint lists. Alone it leaves the offline model on."""
    llm_api_key: SecretStr | None = None
    """Turns the offline model off; unset with an endpoint: sent as `none`."""
    llm_base_url: str | None = None
    """Turns the offline model off: any OpenAI-compatible endpoint."""
    llm_think_tags: ThinkTagsHabit | None = None
    """`written`: the model writes its thoughts into the answer, between <think> and </think>; `begun`: likewise, and
    its server has put the first tag into the prompt."""
    llm_temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The temperature of chat models whose entry and instruction set none; unset: the server's own."""
    llm_max_tokens: Annotated[int, Field(ge=1, le=MAX_ANSWER_TOKENS)] | None = None
    """Likewise the tokens that one answer may have."""
    llm_context_tokens: Annotated[int, Field(ge=MIN_CONTEXT_TOKENS, le=MAX_CONTEXT_TOKENS)] | None = None
    """The window of the environment's chat model: tokens that a prompt and its answer may have together; unset: what a
    refusal of its server names."""
    embed_model_type: Literal["openai", "dashscope", "simple", "local"] = "simple"
    """`simple` hashes; `local` knows English, without a key or network (`pip install 'pentad[local]'`); `openai` asks
    any OpenAI-compatible endpoint, `dashscope` Alibaba's."""
    embed_model_name: str | None = None
    """The endpoint's model; unset: `text-embedding-3-small` of openai, `text-embedding-v4` of dashscope."""
    embed_api_key: SecretStr | None = None
    """The embedding endpoint's key."""
    embed_base_url: str | None = None
    """The embedding endpoint; unset: OpenAI's own, or `https://dashscope.aliyuncs.com/compatible-mode/v1`."""

    pentad_models: Path | None = None
    """A file with several models and their fallbacks, `.json` or `.toml`; its default goes before `LLM_*` and
    `EMBED_*`."""
    pentad_key_hosts: tuple[tuple[str, str], ...] = ()
    """`NAME=SERVER,...`, like `DEEPSEEK_API_KEY=https://api.deepseek.com`: the variables whose keys models that are
    registered at run time may name, and where each may be sent. Those of `PENTAD_MODELS`, and `LLM_API_KEY` and
    `EMBED_API_KEY`, go to the servers that they are used for anyway. The same for all services."""
    pentad_instructions: Path | None = None
    """A file with instructions and graphs, `.json` or `.toml`; its names go before whatever else has them."""

    redis_url: str | None = None
    """Unset: a Redis server is started from its wheel, with its data in the data directory."""
    pentad_data_dir: Path = Path(".pentad")
    """Where the embedded Redis and, by default, the records are kept."""
    pentad_redis_fsync: Literal["everysec", "always"] = "everysec"
    """How often the embedded Redis fsyncs."""
    pentad_redis_replicas: Annotated[int, Field(ge=0, le=16)] = 0
    """Replicas of your Redis that must have a message before it is accepted; fewer within a second: 503, and it may be
    sent again with its id."""
    pentad_api_keys: SecretStr | None = None
    """`KEY:TENANT,...`; unset: one open tenant `default`, on loopback only."""
    pentad_cors_origins: tuple[str, ...] = ()
    """Sites whose pages may talk to the gateway, separated by commas, like `https://app.example.com`; `*` for all,
    where there are API keys."""
    pentad_admin_key: SecretStr | None = None
    """The gateway's: for models, instructions and dead letters, and for its `/metrics` when not on loopback; client
    commands for these send it."""
    pentad_metrics_key: SecretStr | None = None
    """Opens `/metrics` of every service when not on loopback, and nothing else: for whoever collects them."""
    pentad_plugins: tuple[str, ...] = ()
    """Modules with tools, separated by commas, imported by the tool-workers."""
    pentad_connections: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Connections that the gateway holds at once, and never more than half of the files that the process may have open
    (`ulimit -n`). Beyond it idle ones are closed, else new ones get 503."""
    pentad_connections_per_address: Annotated[int, Field(ge=1, le=1_000_000)] = 5_000
    """Likewise of one address. Behind a proxy all clients have its address: set it to `PENTAD_CONNECTIONS` then."""
    pentad_tool_env: tuple[str, ...] = ()
    """Variables that tools may see, separated by commas, beside PATH, HOME, language, time zone, proxies and
    certificates and what `@tool(env=[...])` names. Never one of this table."""
    pentad_queues: tuple[str, ...] = ()
    """Queues of tool calls that a tool-worker serves, separated by commas; unset: those that its tools name. It offers
    the tools of these queues alone."""
    pentad_web: Literal["off", "on"] = "off"
    """`on`: models are offered `web_fetch` and `get_weather`. They send outside what a model puts into an address: turn
    it on where that may be."""
    pentad_web_allow: tuple[str, ...] = ()
    """Hosts of your own network that `web_fetch`, registered endpoints, registered MCP servers and webhooks may ask, as
    `HOST` or `HOST:PORT`, separated by commas. Without it, only addresses of the public internet are asked."""
    pentad_console: Literal["on", "off"] = "on"
    """`on`: the gateway serves the web console at `/console`."""
    pentad_mcp: Path | None = None
    """A file of MCP servers, `{"mcpServers": {...}}` as editors and assistants keep it; the tool-workers offer their
    tools."""
    pentad_mcp_commands: Literal["off", "on"] = "off"
    """`on`: servers that are registered while the system runs may be programs, which the tool-workers start: whoever
    has the admin key can run any program there. Those of `PENTAD_MCP` may in any case."""
    pentad_secrets: str | None = None
    """Where secrets of users and tenants are, which servers of tools need: a folder, or an fsspec URL, with
    `TENANT/USER/NAME`, and `TENANT/NAME` for the whole tenant. The same for gateway, task-runners, tool-workers and
    archivers. Unset: `secrets` in the data directory of `pentad up`; with `pentad serve` there are none."""
    pentad_secret_key: SecretStr | None = None
    """Encrypts secrets that are kept there, and those of webhooks, from now on: 32 bytes in base64, as
    `openssl rand -base64 32` makes them. Of several, separated by commas, the first encrypts and all decrypt."""
    pentad_public_url: str | None = None
    """Address at which browsers reach the gateway, as `https://agents.example.com`: who signs in to an MCP server is
    sent back there. For gateway and tool-workers. Unset: the gateway's own, where it listens on this machine alone."""
    weather_base_url: str | None = None
    """Your own Open-Meteo server, for forecasts and the search for places; unset: the public ones."""
    tavily_api_key: SecretStr | None = None
    """Tavily's key; models are offered `web_search` where it is set."""
    tavily_base_url: str | None = None
    """Another server that speaks Tavily's protocol; unset: `https://api.tavily.com`."""
    pentad_code: Literal["off", "on"] = "off"
    """`on`: models are offered `run_python`, and with `PENTAD_SCRIPTS` tools that keep scripts and run them again,
    where the kernel can confine them; with the extra `code` also `run_program`: docs/sandbox.md."""
    pentad_sandbox: Literal["on", "off"] = "on"
    """`off`: scripts of models run without a sandbox, as the tool-worker's own user, with its files and network; only
    where something else confines the whole tool-worker."""
    pentad_scripts: str | None = None
    """Where scripts are kept, an fsspec URL; the same for tool-workers and archivers. Unset: ``scripts`` in the data
    directory of `pentad up`; with `pentad serve` no script is kept."""
    pentad_records_url: str | None = None
    """fsspec URL; unset: ``records`` in the data directory."""
    pentad_files: str | None = None
    """Where the files of sessions are kept: a folder or an fsspec URL that the gateway, the task-runners, the
    tool-workers and the archivers share. Unset: `pentad up` and `pentad.start()` take `files` in the data directory;
    elsewhere there are no files, and models are not offered tools for them."""
    pentad_file_bytes: Annotated[int, Field(ge=1024, le=1 << 40)] = 104_857_600
    """Bytes that one of these files may have."""
    pentad_workspace_bytes: Annotated[int, Field(ge=1024, le=1 << 44)] = 1_073_741_824
    """Bytes that all files of one session may have together."""
    qdrant_url: str | None = None
    """A Qdrant server, 1.19 or newer, for the long-term memory; without a port 6333 is meant, with https 443. Unset:
    the archiver keeps it in the data directory, and all archivers must share that."""
    qdrant_api_key: SecretStr | None = None
    """The Qdrant server's key."""
    neo4j_uri: str | None = None
    """A Neo4j server, 5 or newer, for the graph of what is known: `neo4j://HOST:7687`; unset: the archiver keeps it in
    the data directory, and all archivers must share that."""
    neo4j_username: str | None = None
    """The name that the Neo4j server knows us by; unset: `neo4j`."""
    neo4j_password: SecretStr | None = None
    """The password of the Neo4j server; unset: it is asked without a name and a password."""
    pentad_shards: Annotated[int, Field(ge=1, le=1024)] = 1
    """Chosen once: data that was made with another number is refused."""
    pentad_url: str | None = None
    """The gateway that client commands talk to; unset: the one of ``gateway.url`` in the data directory, which
    `pentad up` writes, else `http://127.0.0.1:8080`."""
    pentad_api_key: SecretStr | None = None
    """The key that client commands send."""
    pentad_log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least level of the services' log that is shown, on standard error; of libraries, warnings and worse."""
    pentad_log_format: Literal["console", "json"] = "console"
    """`json`: an object a line, with `at level logger message`, and `error` where there is one."""
    no_color: str | None = None
    """Set to anything: no colours on a terminal either (no-color.org)."""

    pentad_grace_s: Annotated[float, Field(ge=0)] = 300
    """Seconds that a finished task can be reopened before it is archived."""
    pentad_lease_s: Annotated[float, Field(ge=0.5, le=600)] = 2
    """Seconds after which a silent worker's work goes to another."""
    pentad_route: Literal["auto", "explicit"] = "auto"
    """`auto`: each message finds its task; `explicit`: one without `task_id` goes to the task that was spoken to
    last."""
    pentad_route_confidence: Annotated[float, Field(ge=0, le=1)] = 0.6
    """How sure a model must be that confirms where a message belongs; else the weighing of words decides."""
    pentad_route_recency: Annotated[float, Field(ge=0, le=5)] = 0.6
    """How much less likely a task is for each other one that was spoken to since, in the logarithm of odds."""
    pentad_wait_ttl_s: Annotated[float, Field(ge=1, le=10 * 365 * _DAY_S)] = 30 * _DAY_S
    """Seconds that a task waits for a person before it ends as failed, reason `wait_expired`."""
    pentad_stale_s: Annotated[float, Field(ge=1, le=10 * 365 * _DAY_S)] = _DAY_S
    """Seconds without anything happening after which a task that has not ended is `stale`, and its person is asked."""
    pentad_tasks_per_session: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    """Tasks of one session that are active at once; those that wait for a person do not count. More are `pending`, and
    start in order when others end."""
    pentad_tasks_per_tenant: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    """Likewise of one tenant. Each shard allows its part of it, rounded up."""
    pentad_tenant_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the messages that may wait to be worked on which one tenant may have; more of it gets 429."""
    pentad_memory_calls: Annotated[int, Field(ge=1, le=1000)] = 4
    """Calls of memory (searches, walks, expansions, changes) that one tenant has under way at once in one gateway. Four
    times as many wait, and of all tenants together run; more get 429."""
    pentad_eval_cases: Path | None = None
    """A folder of its own where the gateway keeps each message that a person moves, with what its session's tasks had
    said, for `make eval-routing DATA=FOLDER`. Personal: unset, nothing is kept. At most 64 MiB."""
    pentad_tz: str | None = None
    """The time zone of dates and times in prompts, and of the built-in clock: an IANA name such as `Europe/Berlin`;
    unset: `TZ`. A message's `metadata.time_zone` goes before it."""
    tz: str | None = None
    """The time zone where `PENTAD_TZ` names none; unset: UTC."""
    pentad_recall_tokens: Annotated[int, Field(ge=0, le=100_000)] = 2000
    """Tokens, about, of what a new task is told of long-term memory, at most; `0`: nothing, and memory is not asked."""
    pentad_memory_scope: Literal["session", "tenant"] = "session"
    """Who finds in memory what was said without a user: `session`: that session alone; `tenant`: all of its tenant. The
    task-runners read it; what was said before the setting was changed keeps its owner."""
    pentad_extract: Literal["never", "auto"] = "auto"
    """`auto`: where a chat model is configured or registered, it is asked what is known from archived tasks, by the
    instruction `memory_archiver`: short tasks of a person together, each task once. The offline model is not asked."""
    pentad_extract_tokens: Annotated[int, Field(ge=0, le=10**12)] = 1_000_000
    """Tokens, of questions and answers, that this may take in a day (UTC) of the whole system, about a thousand short
    tasks; of one tenant at most `PENTAD_TENANT_SHARE` of it. Tasks beyond it get their facts by rule; `0`: all do."""
    pentad_retrieve: Literal["never", "auto"] = "auto"
    """`auto`: when several things are known about a new task, the chat model is asked how to walk the graph from there,
    by the instruction `memory_retriever`: a call before its first answer. Never of the offline one."""
    pentad_step_limit: Annotated[int, Field(ge=1)] = 10
    """Steps since the last user message after which a task fails."""
    pentad_step_timeout_s: Annotated[float, Field(gt=0)] = 600
    """Seconds for a step: a model that is not to be had, and tool calls without a result, are given up then."""
    pentad_max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """Failed attempts after which work is set aside. Outages of stores and models are not counted."""
    pentad_dead_maxlen: Annotated[int, Field(ge=1)] = 10_000
    """Dead letters that are kept, of the inbound stream and of each shard; beyond it the oldest go."""
    pentad_dead_ttl_s: Annotated[int, Field(ge=60, le=365 * _DAY_S)] = 30 * _DAY_S
    """Seconds after which a dead letter that nobody has redriven or discarded is dropped."""
    pentad_events_maxlen: Annotated[int, Field(ge=100)] = 10_000
    """Events that a session keeps for clients that come back. Of large ones fewer: in all 4 KiB for each of these,
    40 MiB by default."""
    pentad_events_ttl_s: Annotated[int, Field(ge=1)] = 86_400
    """Seconds that they are kept after the last."""
    pentad_coalesce_ms: Annotated[int, Field(ge=0, le=1000)] = 40
    """Deltas within this time are written as one; the first and the last go at once."""
    pentad_calls_per_step: Annotated[int, Field(ge=1, le=1000)] = 128
    """Tool calls of one answer that are made; each further one is answered with an error that says so."""
    pentad_approve: ApprovalMode = "never"
    """Tool calls that a person must allow although their tools do not ask for it: `never` any, `unsafe` ones, `all`."""
    pentad_policies: Path | None = None
    """A file with approval policies, `.json` or `.toml`: which tool calls are made, which a person must allow, and
    which are never made. They go before registered ones of the same order or name."""
    pentad_approval_s: Annotated[float, Field(ge=1, le=10 * 365 * _DAY_S)] = 3600
    """Seconds within which a person can allow or refuse a tool call; then it is not made, and the model is told so."""
    pentad_schedules: Annotated[int, Field(ge=0, le=1_000)] = 100
    """Schedules that a tenant may have, those that ended lately among them. 0: none are added."""
    pentad_schedule_s: Annotated[float, Field(ge=1, le=86_400)] = 60
    """Seconds that lie between two due times of a schedule at least."""
    pentad_compact_share: Annotated[float, Field(ge=0, le=0.95)] = 0.7
    """The share of a model's window beyond which the older part of a conversation is summarised in prompts. 0: never.
    A model whose window is not known is not concerned."""
    pentad_result_bytes: Annotated[int, Field(ge=1024, le=1_048_576)] = 32_768
    """Bytes of one tool result that prompts hold; of a longer one its beginning and its end, and where the whole is."""
    pentad_tool_concurrency: Annotated[int, Field(ge=1)] = 256
    """Tool calls at once in one tool-worker."""
    pentad_tool_processes: Annotated[int, Field(ge=1, le=64)] = 2
    """Child processes for user-defined tools, in one tool-worker."""
    pentad_tool_threads: Annotated[int, Field(ge=1, le=1024)] = 32
    """Threads for plain functions, in one child process."""

    _withheld: frozenset[str] = PrivateAttr(default=frozenset())

    _url_of_env_file: bool = PrivateAttr(default=False)

    _models: tuple[ModelEntry, ...] = PrivateAttr(default=())

    _runnables: tuple[Runnable, ...] = PrivateAttr(default=())

    @property
    def models_of_program(self) -> tuple[ModelEntry, ...]:
        """The models that the program hands over which runs the services; they go before those of ``PENTAD_MODELS``."""
        return self._models

    @property
    def runnables_of_program(self) -> tuple[Runnable, ...]:
        """The instructions and graphs that the program hands over; they go before those of ``PENTAD_INSTRUCTIONS``."""
        return self._runnables

    def handing_over(self, models: tuple[ModelEntry, ...], runnables: tuple[Runnable, ...]) -> Self:
        """Return a copy with the models, instructions and graphs of the program."""
        made = self.model_copy()
        made._models, made._runnables = models, runnables
        return made

    @property
    def url_of_env_file(self) -> bool:
        """Whether the folder's `.env` alone says which gateway a client talks to."""
        return self._url_of_env_file

    @property
    def withheld(self) -> frozenset[str]:
        """Names of exported secrets that are left out, because their address comes from the folder's `.env`."""
        return self._withheld

    @field_validator(
        "pentad_plugins", "pentad_cors_origins", "pentad_tool_env", "pentad_queues", "pentad_web_allow", mode="before"
    )
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("pentad_key_hosts", mode="before")
    @classmethod
    def _hosts_of_keys(cls, value: Any) -> Any:
        return parse_key_hosts(value) if isinstance(value, str) else value

    @field_validator("pentad_cors_origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, origin in enumerate(value, start=1):
            if origin != "*" and _ORIGIN.fullmatch(origin) is None:
                raise ValueError(f"entry {number} is not of the form https://app.example.com, without a path")
        return value

    @field_validator("pentad_web_allow")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, host in enumerate(value, start=1):
            if _HOST.fullmatch(host) is None:
                raise ValueError(f"entry {number} is not of the form HOST or HOST:PORT, like wiki.example.com:8080")
        return tuple(host.lower() for host in value)

    @field_validator("pentad_queues")
    @classmethod
    def _are_queues(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, queue in enumerate(value, start=1):
            if _QUEUE_NAME.fullmatch(queue) is None:
                raise ValueError(f"entry {number} is not 1 to 32 of lower case letters, digits and '-'")
        if len(set(value)) > _MAX_QUEUES:
            raise ValueError(f"it names {len(set(value))} queues: at most {_MAX_QUEUES}")
        return tuple(dict.fromkeys(value))

    @field_validator("pentad_tool_env")
    @classmethod
    def _may_be_told(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            check_tool_variable(name)
        return value

    @field_validator("pentad_tz", "tz")
    @classmethod
    def _is_zone(cls, value: str | None) -> str | None:
        if value is None:
            return None
        zone_of(name := value.removeprefix(":"))
        return name

    @field_validator("pentad_secret_key")
    @classmethod
    def _secret_keys_parse(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_secret_keys(value.get_secret_value())
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis_address(cls, value: str | None) -> str | None:
        if value is not None:
            check_redis_url(value)
        return value

    @field_validator(
        "llm_base_url", "embed_base_url", "pentad_url", "qdrant_url", "weather_base_url", "tavily_base_url"
    )
    @classmethod
    def _http_address(cls, value: str | None) -> str | None:
        if value is not None:
            read_http_url(value)
        return value

    @field_validator("pentad_public_url")
    @classmethod
    def _is_a_place(cls, value: str | None) -> str | None:
        if value is not None:
            parts = read_http_url(value)
            if "@" in parts.netloc or parts.query or "?" in value:
                raise ValueError("must be an address like https://agents.example.com, without a user name or a ?")
        return value

    @field_validator("pentad_api_keys")
    @classmethod
    def _keys_parse(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_api_keys(value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _all_sites_need_keys(self) -> Self:
        if "*" in self.pentad_cors_origins and not self.api_keys:
            raise ValueError(
                "PENTAD_CORS_ORIGINS is wrong: `*` would open this gateway to every page; set PENTAD_API_KEYS"
            )
        return self

    @model_validator(mode="after")
    def _admin_key_is_no_tenants(self) -> Self:
        if self.admin_key is not None and self.admin_key in self.api_keys:
            raise ValueError("PENTAD_ADMIN_KEY is wrong: it is also a key of PENTAD_API_KEYS")
        return self

    @model_validator(mode="after")
    def _metrics_key_is_no_others(self) -> Self:
        if self.metrics_key is not None and self.metrics_key in (self.admin_key, *self.api_keys):
            raise ValueError(
                "PENTAD_METRICS_KEY is wrong: it is also PENTAD_ADMIN_KEY or a key of PENTAD_API_KEYS, and every "
                "service has it; make another one"
            )
        return self

    @property
    def api_keys(self) -> Mapping[str, str]:
        """API key to tenant; empty means one open tenant on loopback."""
        return parse_api_keys(self.pentad_api_keys.get_secret_value()) if self.pentad_api_keys else {}

    @property
    def admin_key(self) -> str | None:
        """The operator's key; None: there is none."""
        return self.pentad_admin_key.get_secret_value() if self.pentad_admin_key else None

    @property
    def metrics_key(self) -> str | None:
        """The key of whoever collects metrics; None: there is none."""
        return self.pentad_metrics_key.get_secret_value() if self.pentad_metrics_key else None

    def marked(self, *, withheld: frozenset[str], url_of_env_file: bool) -> Self:
        """Return a copy that tells what of it the `.env` of a folder has decided."""
        made = self.model_copy()
        made._withheld, made._url_of_env_file = withheld, url_of_env_file
        return made

    def without_gateway_secrets(self) -> Self:
        """Return a copy for another service in the gateway's process, without keys of operator, tenants, metrics."""
        return self.model_copy(update=dict.fromkeys(_GATEWAY_SECRETS))

    @property
    def records_url(self) -> str:
        """Where finished tasks are kept."""
        return self.pentad_records_url or str(self.pentad_data_dir.absolute() / "records")

    def on_one_machine(self) -> Self:
        """Return a copy for a system of one machine: files, scripts and secrets without a place of their own are kept
        in the data directory."""
        folder = self.pentad_data_dir.absolute()
        places = {f"pentad_{name}": str(folder / name) for name in ("files", "scripts", "secrets")}
        return self.model_copy(update={name: getattr(self, name) or place for name, place in places.items()})

    @property
    def lease_ms(self) -> int:
        return round(self.pentad_lease_s * 1000)

    @property
    def time_zone(self) -> str:
        """The time zone of prompts and clocks."""
        return self.pentad_tz or self.tz or "UTC"

    @property
    def session_ttl_s(self) -> int:
        """Seconds after which an idle session is forgotten: later than any of its tasks can still be waited for."""
        return max(_SESSION_TTL_S, round(self.pentad_wait_ttl_s + self.pentad_grace_s) + _DAY_S)

    @property
    def tenant_tasks_per_shard(self) -> int:
        """Tasks of one tenant that are active at once in one shard."""
        return -(-self.pentad_tasks_per_tenant // self.pentad_shards)

    def redis(self) -> str:
        """The Redis address of a service that has none of its own to start. Raises ``SettingsError`` when unset."""
        if self.redis_url is None:
            raise SettingsError("REDIS_URL is not set: give the address of a Redis >= 7.0, or use `pentad up`")
        return self.redis_url


def parse_api_keys(text: str) -> dict[str, str]:
    """Read ``key:tenant,...`` as a mapping. Raises ``ValueError``, which does not repeat a key."""
    keys: dict[str, str] = {}
    for number, part in enumerate((p.strip() for p in text.split(",")), start=1):
        key, _, tenant = part.partition(":")
        if not _KEY.fullmatch(key) or not is_identifier(tenant):
            raise ValueError(f"entry {number} is not of the form key:tenant, the key without spaces and colons")
        if key in keys:
            raise ValueError(f"entry {number} has the key of another: each key is one tenant's")
        keys[key] = tenant
    return keys


def parse_secret_keys(text: str) -> tuple[bytes, ...]:
    """Read keys of 32 bytes in base64, separated by commas. Raises ``ValueError``, which does not repeat a key."""
    keys = []
    for number, part in enumerate(text.split(","), start=1):
        try:
            key = b64decode(part.strip().replace("-", "+").replace("_", "/"), validate=True)
        except ValueError:
            key = b""
        if len(key) != _SECRET_KEY_BYTES:
            raise ValueError(f"key {number} is not 32 bytes in base64: `openssl rand -base64 32` makes one")
        keys.append(key)
    return tuple(keys)


def parse_key_hosts(text: str) -> tuple[tuple[str, str], ...]:
    """Read ``NAME=SERVER,...`` as pairs. Raises ``ValueError``, which does not repeat a value: it may be a key."""
    pairs = []
    for number, part in enumerate((p.strip() for p in text.split(",") if p.strip()), start=1):
        name, _, server = part.partition("=")
        try:
            parts = read_http_url(server)
        except ValueError:
            parts = None
        plain = parts is not None and not (parts.path.strip("/") or parts.query or "@" in parts.netloc)
        if not plain or not is_model_key_name(name):
            raise ValueError(
                f"entry {number} is not of the form DEEPSEEK_API_KEY=https://api.deepseek.com: the name of a variable "
                "that ends in _API_KEY, and a server without a path"
            )
        pairs.append((name, server))
    return tuple(pairs)


def load_settings(environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Return the settings of this process; ``overrides`` come from the command line and win.

    Raises ``SettingsError``, which names each wrong variable and never shows its value.
    """
    source = os.environ if environment is None else environment
    given = {f: source.get(f.upper(), "").strip() for f in Settings.model_fields}  # files of secrets end in a newline
    wanted = {field: value for field, value in given.items() if value}
    wanted.update({name: value for name, value in overrides.items() if value is not None})
    try:
        return Settings.model_validate(wanted)
    except ValidationError as error:
        raise SettingsError("; ".join(_complaints(error))) from None


def model_key(variable: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the key of a model, from the variable that its entry names; None when that is not set."""
    return (os.environ if environment is None else environment).get(variable, "").strip() or None


def named_variable(name: str) -> str | None:
    """Return the value of a variable that an operator's file names; None when it is not set."""
    return os.environ.get(name)


def server_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that serves tools: where programs and its home are, and the named ones."""
    return {name: os.environ[name] for name in _FOR_EVERY_SERVER if name in os.environ} | dict(variables)


def check_tool_variable(name: str) -> None:
    """Raise ``ValueError`` for a variable that no tool may see: a setting of Pentad, or a name of no variable."""
    if _VARIABLE.fullmatch(name) is None:
        raise ValueError(f"{name[:100]!r} is not the name of a variable: it has letters, digits and _")
    if name.upper().startswith(VARIABLE_PREFIX) or name.lower() in Settings.model_fields:
        raise ValueError(f"{name[:100]} is Pentad's own and no tool's to see: give the tool a variable of its own")


def tool_environment(names: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of tools' processes and helpers: variables that every program needs, and the named."""
    source = os.environ if environment is None else environment
    wanted = {*_FOR_EVERY_PROGRAM, *names}
    return {name: text for name, text in source.items() if name in wanted or name.startswith(_LANGUAGE)}


def service_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a service in a process of its own: all variables but the gateway's secrets."""
    source = os.environ if environment is None else environment
    return {name: text for name, text in source.items() if name.lower() not in _GATEWAY_SECRETS}


def take_into_environment(told: Mapping[str, str]) -> None:
    """Set variables that this process was told after its start, so that none shows in what it was started with."""
    os.environ.update(told)


def _complaints(error: ValidationError) -> list[str]:
    said = [(e["loc"], e["msg"].removeprefix("Value error, ")) for e in error.errors()]
    return [f"{str(where[0]).upper()} is wrong: {text}" if where else text for where, text in said]
