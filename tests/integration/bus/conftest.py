"""Consumers and ingresses on a server of their own."""

from tests.support.server_kinds import (
    container_redis,
    container_redis_url,
    redis_server,
    redis_url,
    server_url,
    store,
)

__all__ = ["container_redis", "container_redis_url", "redis_server", "redis_url", "server_url", "store"]
