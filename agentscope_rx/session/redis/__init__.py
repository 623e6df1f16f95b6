"""`RedisSession`: sessions in Redis, by redis-py. It needs the extra `redis`."""

from __future__ import annotations

from importlib.util import find_spec

from agentscope_rx.errors import MissingExtraError

if find_spec("redis") is None:
    raise MissingExtraError("redis", "redis")

from agentscope_rx.session.redis.session import RedisSession

__all__ = ["RedisSession"]
