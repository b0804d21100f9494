"""The Redis in a container."""

from tests.support.redis.container_redis import container_redis, container_redis_url

__all__ = ["container_redis", "container_redis_url"]
