"""The official clients that carry our requests. One generator makes them, so an endpoint asks the same of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pentad.shared.immutable import immutable


@immutable
class OfficialClient:
    """The parts of an official client's package that an endpoint uses."""

    make: Callable[..., Any]
    """Makes a client from base_url, api_key, http_client and max_retries."""
    stream: type[Any]
    status_error: type[Exception]
    """The error of an HTTP status that is no success; it holds the `response`."""
    connection_error: type[Exception]
    any_error: type[Exception]


def openai_client() -> OfficialClient:
    """Import `openai` and return its parts. This takes 0.6 s of CPU the first time."""
    import openai

    return OfficialClient(
        make=openai.AsyncOpenAI,
        stream=openai.AsyncStream,
        status_error=openai.APIStatusError,
        connection_error=openai.APIConnectionError,
        any_error=openai.OpenAIError,
    )


def anthropic_client(version: str | None) -> OfficialClient:
    """Import `anthropic` and return its parts, for twice the CPU of `openai`.

    `version` is that of the API; None leaves it to the client.
    """
    import anthropic

    headers = None if version is None else {"anthropic-version": version}
    return OfficialClient(
        # Traces are ours to make: the client's own would need a span for each call.
        make=partial(anthropic.AsyncAnthropic, default_headers=headers, open_telemetry=False),
        stream=anthropic.AsyncStream,
        status_error=anthropic.APIStatusError,
        connection_error=anthropic.APIConnectionError,
        any_error=anthropic.AnthropicError,
    )
