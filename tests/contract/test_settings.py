"""The environment's variables are those promised to operators, with their defaults."""

from base64 import b64encode

import pytest

from pentad.shared.command_settings import unknown_variables
from pentad.shared.errors import SettingsError
from pentad.shared.settings import Settings, load_settings

PROMISED: dict[str, str | None] = {
    "LLM_MODEL_ID": None,
    "LLM_API_KEY": None,
    "LLM_BASE_URL": None,
    "LLM_THINK_TAGS": None,
    "LLM_TEMPERATURE": None,
    "LLM_MAX_TOKENS": None,
    "LLM_CONTEXT_TOKENS": None,
    "EMBED_MODEL_TYPE": "simple",
    "EMBED_MODEL_NAME": None,
    "EMBED_API_KEY": None,
    "EMBED_BASE_URL": None,
    "PENTAD_MODELS": None,
    "PENTAD_KEY_HOSTS": "()",
    "PENTAD_INSTRUCTIONS": None,
    "REDIS_URL": None,
    "PENTAD_DATA_DIR": ".pentad",
    "PENTAD_API_KEYS": None,
    "PENTAD_CORS_ORIGINS": "()",
    "PENTAD_ADMIN_KEY": None,
    "PENTAD_METRICS_KEY": None,
    "PENTAD_PLUGINS": "()",
    "PENTAD_CONNECTIONS": "10000",
    "PENTAD_CONNECTIONS_PER_ADDRESS": "5000",
    "PENTAD_TOOL_ENV": "()",
    "PENTAD_QUEUES": "()",
    "PENTAD_WEB": "off",
    "PENTAD_WEB_ALLOW": "()",
    "PENTAD_CONSOLE": "on",
    "PENTAD_MCP": None,
    "PENTAD_MCP_COMMANDS": "off",
    "PENTAD_SECRETS": None,
    "PENTAD_SECRET_KEY": None,
    "PENTAD_PUBLIC_URL": None,
    "WEATHER_BASE_URL": None,
    "TAVILY_API_KEY": None,
    "TAVILY_BASE_URL": None,
    "PENTAD_CODE": "off",
    "PENTAD_SANDBOX": "on",
    "PENTAD_SCRIPTS": None,
    "PENTAD_RECORDS_URL": None,
    "PENTAD_FILES": None,
    "PENTAD_FILE_BYTES": "104857600",
    "PENTAD_WORKSPACE_BYTES": "1073741824",
    "PENTAD_SHARDS": "1",
    "PENTAD_REDIS_FSYNC": "everysec",
    "QDRANT_URL": None,
    "QDRANT_API_KEY": None,
    "NEO4J_URI": None,
    "NEO4J_USERNAME": None,
    "NEO4J_PASSWORD": None,
    "PENTAD_GRACE_S": "300",
    "PENTAD_LEASE_S": "2",
    "PENTAD_WAIT_TTL_S": "2592000",
    "PENTAD_ROUTE": "auto",
    "PENTAD_ROUTE_CONFIDENCE": "0.6",
    "PENTAD_ROUTE_RECENCY": "0.6",
    "PENTAD_STALE_S": "86400",
    "PENTAD_EVAL_CASES": None,
    "PENTAD_TASKS_PER_SESSION": "10",
    "PENTAD_TASKS_PER_TENANT": "1000",
    "PENTAD_TENANT_SHARE": "0.5",
    "PENTAD_MEMORY_CALLS": "4",
    "PENTAD_REDIS_REPLICAS": "0",
    "PENTAD_TZ": None,
    "TZ": None,
    "PENTAD_RECALL_TOKENS": "2000",
    "PENTAD_MEMORY_SCOPE": "session",
    "PENTAD_EXTRACT": "auto",
    "PENTAD_EXTRACT_TOKENS": "1000000",
    "PENTAD_RETRIEVE": "auto",
    "PENTAD_STEP_LIMIT": "10",
    "PENTAD_STEP_TIMEOUT_S": "600",
    "PENTAD_MAX_ATTEMPTS": "5",
    "PENTAD_DEAD_MAXLEN": "10000",
    "PENTAD_DEAD_TTL_S": "2592000",
    "PENTAD_EVENTS_MAXLEN": "10000",
    "PENTAD_EVENTS_TTL_S": "86400",
    "PENTAD_COALESCE_MS": "40",
    "PENTAD_CALLS_PER_STEP": "128",
    "PENTAD_APPROVE": "never",
    "PENTAD_POLICIES": None,
    "PENTAD_APPROVAL_S": "3600",
    "PENTAD_SCHEDULES": "100",
    "PENTAD_SCHEDULE_S": "60",
    "PENTAD_COMPACT_SHARE": "0.7",
    "PENTAD_RESULT_BYTES": "32768",
    "PENTAD_TOOL_CONCURRENCY": "256",
    "PENTAD_TOOL_PROCESSES": "2",
    "PENTAD_TOOL_THREADS": "32",
    "PENTAD_LOG_LEVEL": "info",
    "PENTAD_LOG_FORMAT": "console",
    "PENTAD_URL": None,
    "PENTAD_API_KEY": None,
}
"""Variable to default; the last two are the client commands'."""
CONVENTIONS = {"NO_COLOR": None}
"""Not ours: what terminals agree on."""
SECRETS = {name for name in PROMISED if name.endswith(("_KEY", "_KEYS"))}
WRONG = {
    "EMBED_MODEL_TYPE": "magic",
    "REDIS_URL": "http://:hunter2@127.0.0.1",
    "LLM_BASE_URL": "ftp://hunter2",
    "LLM_THINK_TAGS": "hunter2",
    "LLM_TEMPERATURE": "2.5",
    "LLM_MAX_TOKENS": "0",
    "LLM_CONTEXT_TOKENS": "255",
    "PENTAD_CORS_ORIGINS": "https://hunter2.example/path",
    "PENTAD_API_KEYS": "hunter2",
    "QDRANT_URL": "hunter2:6333",
    "PENTAD_CONNECTIONS": "0",
    "PENTAD_TOOL_ENV": "MY_KEY,PENTAD_ADMIN_KEY",
    "PENTAD_QUEUES": "gpu,Hunter2",
    "PENTAD_WEB": "hunter2",
    "PENTAD_WEB_ALLOW": "http://hunter2/",
    "PENTAD_CODE": "hunter2",
    "PENTAD_SANDBOX": "hunter2",
    "PENTAD_CONSOLE": "hunter2",
    "PENTAD_MCP_COMMANDS": "hunter2",
    "PENTAD_SECRET_KEY": "hunter2",
    "WEATHER_BASE_URL": "hunter2",
    "TAVILY_BASE_URL": "ftp://hunter2",
    "PENTAD_SHARDS": "0",
    "PENTAD_REDIS_FSYNC": "never",
    "PENTAD_GRACE_S": "-1",
    "PENTAD_LEASE_S": "hunter2",
    "PENTAD_WAIT_TTL_S": "0",
    "PENTAD_ROUTE": "never",
    "PENTAD_ROUTE_CONFIDENCE": "2",
    "PENTAD_ROUTE_RECENCY": "-1",
    "PENTAD_STALE_S": "0",
    "PENTAD_TZ": "Mars/Base",
    "PENTAD_TASKS_PER_SESSION": "0",
    "PENTAD_TASKS_PER_TENANT": "0",
    "PENTAD_TENANT_SHARE": "1.5",
    "PENTAD_MEMORY_CALLS": "0",
    "PENTAD_REDIS_REPLICAS": "-1",
    "PENTAD_RECALL_TOKENS": "-1",
    "PENTAD_MEMORY_SCOPE": "user",
    "PENTAD_EXTRACT": "always",
    "PENTAD_EXTRACT_TOKENS": "-1",
    "PENTAD_STEP_LIMIT": "1.5",
    "PENTAD_CALLS_PER_STEP": "0",
    "PENTAD_APPROVE": "always",
    "PENTAD_APPROVAL_S": "0",
    "PENTAD_SCHEDULES": "-1",
    "PENTAD_SCHEDULE_S": "0",
    "PENTAD_EVENTS_TTL_S": "0",
    "PENTAD_TOOL_PROCESSES": "hunter2",
}


def test_variables_and_defaults_are_those_promised() -> None:
    found = {name.upper(): field.default for name, field in Settings.model_fields.items()}
    assert {name: None if value is None else str(value) for name, value in found.items()} == {
        **PROMISED,
        **CONVENTIONS,
    }


def test_nothing_set_is_the_defaults_and_an_empty_value_is_not_set() -> None:
    assert load_settings({}) == Settings() == load_settings(dict.fromkeys(PROMISED, " "))


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_secret_is_not_shown(name: str) -> None:
    if name == "PENTAD_SECRET_KEY":
        value = b64encode(b"hunter2-hunter2-hunter2-hunter2-").decode()
        settings = load_settings({name: value})
        assert value not in f"{settings!r} {settings} {settings.model_dump()}"
        return
    settings = load_settings({name: "hunter2:default"})
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump()}"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_by_name_and_not_shown(name: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({name: WRONG[name]})
    assert str(refused.value).startswith(f"{name} is wrong: ")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "origin", ["app.example.com", "https://a/", "https://a b", "ftp://a", "null", "https://a,b", "https://"]
)
def test_a_site_is_a_scheme_and_a_host(origin: str) -> None:
    with pytest.raises(SettingsError, match=r"PENTAD_CORS_ORIGINS is wrong: entry . is not of the form"):
        load_settings({"PENTAD_CORS_ORIGINS": origin})
    given = "https://app.example.com, http://localhost:5173,http://[::1]:80"
    assert len(load_settings({"PENTAD_CORS_ORIGINS": given}).pentad_cors_origins) == 3


def test_an_open_gateway_is_not_opened_to_every_page() -> None:
    with pytest.raises(SettingsError, match="every page; set PENTAD_API_KEYS"):
        load_settings({"PENTAD_CORS_ORIGINS": "*"})
    assert load_settings({"PENTAD_CORS_ORIGINS": "*", "PENTAD_API_KEYS": "k:t"}).pentad_cors_origins == ("*",)


@pytest.mark.parametrize("name", ["PENTAD_GRACE_S", "PENTAD_STEP_TIMEOUT_S"])
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_a_time_has_an_end(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is wrong"):
        load_settings({name: value})


def test_every_wrong_value_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(WRONG)
    assert [name for name in WRONG if f"{name} is wrong" not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("PENTAD_SHARD", "did you mean PENTAD_SHARDS?"),
        ("PENTAD_PLUGIN", "did you mean PENTAD_PLUGINS?"),
        ("PENTAD_REDIS_URL", "did you mean REDIS_URL?"),
        ("PENTAD_XYZZY", "docs/configure.md lists them"),
        ("LLM_MODEL", "did you mean LLM_MODEL_ID?"),
        ("LLM_BASEURL", "did you mean LLM_BASE_URL?"),
        ("EMBED_MODEL_TYP", "did you mean EMBED_MODEL_TYPE?"),
        ("REDIS_URI", "did you mean REDIS_URL?"),
        ("QDRANT_KEY", "did you mean QDRANT_API_KEY?"),
        ("PENTD_API_KEYS", "did you mean PENTAD_API_KEYS?"),
    ],
)
def test_a_misspelt_variable_is_told_with_the_nearest_name(name: str, advice: str) -> None:
    assert unknown_variables({name: "hunter2"}) == [f"{name} is not a setting and is ignored: {advice}"]


def test_what_is_known_or_not_ours_is_not_told() -> None:
    assert (
        unknown_variables(dict.fromkeys([*PROMISED, "PATH", "LLM_TEMPERATURE", "REDIS_HOST", "pentad_shard"], "1"))
        == []
    )


def test_a_key_that_a_file_of_models_names_is_not_told() -> None:
    assert unknown_variables({"LLM2_API_KEY": "k", "PENTAD_MODELS": "models.toml"}) == []


def test_a_value_that_ends_in_a_newline_is_taken_without_it() -> None:
    """As files of secrets do. A key with a newline cannot be sent, and would be shown in the error that says so."""
    settings = load_settings({"LLM_API_KEY": "sk-secret\n", "REDIS_URL": " redis://127.0.0.1:6379 "})
    assert settings.llm_api_key is not None
    assert settings.llm_api_key.get_secret_value() == "sk-secret"
    assert settings.redis_url == "redis://127.0.0.1:6379"


@pytest.mark.parametrize(
    "keys", ["{0}:a,{0}:b", "{0}:a,{0}:a", "{0} b:c", "{0}:b:c", "{0}\t:a", ":{0} x", "{0}:", "{0}:a,", "é{0}:a", "{0}"]
)
def test_keys_that_say_two_things_are_refused_and_not_shown(keys: str) -> None:
    with pytest.raises(SettingsError, match=r"PENTAD_API_KEYS is wrong: entry \d") as refused:
        load_settings({"PENTAD_API_KEYS": keys.format("hunter2")})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("other", [{"PENTAD_API_KEYS": "hunter2:acme"}, {"PENTAD_ADMIN_KEY": "hunter2"}])
def test_the_key_of_metrics_opens_nothing_else(other: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="PENTAD_METRICS_KEY is wrong: it is also") as refused:
        load_settings({"PENTAD_METRICS_KEY": "hunter2", **other})
    assert "hunter2" not in str(refused.value)


def test_the_operators_key_is_no_tenants() -> None:
    with pytest.raises(
        SettingsError, match="PENTAD_ADMIN_KEY is wrong: it is also a key of PENTAD_API_KEYS"
    ) as refused:
        load_settings({"PENTAD_API_KEYS": "hunter2:acme", "PENTAD_ADMIN_KEY": "hunter2"})
    assert "hunter2" not in str(refused.value)
