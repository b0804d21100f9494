"""A service starts without what it does not use: the protocols of models are imported where one is asked first."""

import subprocess
import sys

import pytest

PROTOCOLS = ("anthropic.chat", "openai_chat", "openai_embedding", "streamed_chat", "offline.model", "local_embedding")
CLIENTS = ("anthropic", "openai", "httpx2", "sentence_transformers", "torch")
_LOADED = """
import importlib, sys
importlib.import_module(f"pentad.services.{sys.argv[1]}.app")
print(*sorted(sys.modules))
"""


@pytest.mark.parametrize("service", ["router", "task_runner", "tool_worker", "gateway", "archiver"])
def test_a_service_imports_no_protocol_and_no_client_of_models_before_it_asks_one(service: str) -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED, service], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert f"pentad.services.{service}.app" in loaded
    assert [name for name in PROTOCOLS if f"pentad.shared.models.{name}" in loaded] == []
    assert [name for name in CLIENTS if name in loaded] == []


def test_a_gateway_without_clients_of_mcp_does_not_import_the_sdk() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED, "gateway"], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not {"mcp", "mcp_types", "sse_starlette"} & loaded
