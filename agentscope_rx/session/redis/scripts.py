"""The Lua scripts of `RedisSession`: Redis runs each as one step, before or after every other command.

    <prefix>{17}                a sorted set: the sessions whose code falls into bucket 17, by the time they expire
    <prefix>{17}:ann            a hash:  "="        the version
                                         "v:state"  the JSON of a value
                                         "l:memory" the length of a list
    <prefix>{17}:ann:memory     a list: the JSON of each item

The part in braces decides where a Redis Cluster keeps a key. So a session and the index that names it are on one node,
and one script can change both; the index of all sessions is that of all buckets.

A script that has begun to write is never undone. So `SAVE` checks everything first.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from agentscope_rx.session.manifest import code_of

BUCKETS: Final = 64
"""The number of indexes: the more there are, the more nodes of a cluster share the sessions."""


class Keys:
    """The keys of one session in Redis."""

    __slots__ = ("code", "index", "session")

    def __init__(self, prefix: str, key: str) -> None:
        self.code: str = code_of(key)
        self.index: str = index_of(prefix, crc32(self.code.encode()) % BUCKETS)
        self.session: str = f"{self.index}:{self.code}"

    def list_of(self, name: str) -> bytes:
        """The key of a list."""
        return b"%b:%b" % (self.session.encode(), bytes_of(name))


def index_of(prefix: str, bucket: int) -> str:
    """The key of a bucket's index."""
    return f"{prefix}{{{bucket}}}"


def bytes_of(text: str) -> bytes:
    """The name of an entry as bytes: any text, with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


_RENEW = """
local function lists_of(session)
  local found = {}
  for _, field in ipairs(redis.call('HKEYS', session)) do
    if string.sub(field, 1, 2) == 'l:' then found[#found + 1] = session .. ':' .. string.sub(field, 3) end
  end
  return found
end

-- the session and its lists expire at one moment; without ttl never
local function renew(index, session, code, ttl)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
  if ttl ~= '' then
    local at = string.format('%.0f', now + tonumber(ttl))
    redis.call('ZADD', index, at, code)
    redis.call('PEXPIREAT', session, at)
    for _, list in ipairs(lists_of(session)) do redis.call('PEXPIREAT', list, at) end
  else
    redis.call('ZADD', index, '+inf', code)
    if redis.call('PTTL', session) > -1 then
      redis.call('PERSIST', session)
      for _, list in ipairs(lists_of(session)) do redis.call('PERSIST', list) end
    end
  end
end
"""

SAVE: Final = (
    _RENEW
    + """
-- KEYS: index, session, the list of each entry; ARGV: any|none|at, expected, version, ttl, code, number of entries,
-- then for each entry: name, v|l, start ('' is the end), number of lines, lines
local index, session = KEYS[1], KEYS[2]
local found = redis.call('HGET', session, '=')
if (ARGV[1] == 'none' and found) or (ARGV[1] == 'at' and found ~= ARGV[2]) then return {'conflict', found or ''} end

local entries = {}
local at = 7
for number = 1, tonumber(ARGV[6]) do
  local each = {name = ARGV[at], list = KEYS[number + 2], kind = ARGV[at + 1], start = ARGV[at + 2],
                first = at + 4, last = at + 3 + tonumber(ARGV[at + 3])}
  each.length = tonumber(redis.call('HGET', session, 'l:' .. each.name) or 0)
  if each.kind == 'l' then
    if each.start ~= '0' then
      local value = redis.call('HEXISTS', session, 'v:' .. each.name) == 1
      local there = redis.call('LLEN', each.list)
      if there ~= each.length then return {'damaged', number - 1, there, each.length} end
      if value then return {'misfit', number - 1, 'value', 1} end
      if each.start ~= '' and tonumber(each.start) > each.length then
        return {'misfit', number - 1, 'list', each.length}
      end
    end
    each.start = each.start == '' and each.length or tonumber(each.start)
  end
  entries[number] = each
  at = each.last + 1
end

-- first, because a server that is full refuses it: behind a command that frees memory it would refuse none
redis.call('HSET', session, '=', ARGV[3])
for _, each in ipairs(entries) do
  if each.kind == 'v' then
    redis.call('HDEL', session, 'l:' .. each.name)
    redis.call('UNLINK', each.list)
    redis.call('HSET', session, 'v:' .. each.name, ARGV[each.first])
  else
    redis.call('HDEL', session, 'v:' .. each.name)
    if each.start == 0 then
      redis.call('UNLINK', each.list)
    elseif each.start < each.length then
      redis.call('LTRIM', each.list, 0, each.start - 1)
    end
    for from = each.first, each.last, 1000 do
      redis.call('RPUSH', each.list, unpack(ARGV, from, math.min(from + 999, each.last)))
    end
    redis.call('HSET', session, 'l:' .. each.name, each.start + each.last - each.first + 1)
  end
end
renew(index, session, ARGV[5], ARGV[4])
return {'saved'}
"""
)

LOAD: Final = (
    _RENEW
    + """
-- KEYS: index, session; ARGV: ttl, code, all|some, names; returns the version, then for each entry:
-- name, value, or name, length, lines
local index, session = KEYS[1], KEYS[2]
local reply = {redis.call('HGET', session, '=')}
if not reply[1] then return {} end
if ARGV[1] ~= '' then renew(index, session, ARGV[2], ARGV[1]) end

local function add(field, content)
  local name = string.sub(field, 3)
  if string.sub(field, 1, 2) == 'v:' then
    reply[#reply + 1] = {name, content}
  elseif field ~= '=' then
    reply[#reply + 1] = {name, content, redis.call('LRANGE', session .. ':' .. name, 0, -1)}
  end
end

if ARGV[3] == 'all' then
  local fields = redis.call('HGETALL', session)
  for at = 1, #fields, 2 do add(fields[at], fields[at + 1]) end
else
  for at = 4, #ARGV do
    for _, kind in ipairs({'v:', 'l:'}) do
      local content = redis.call('HGET', session, kind .. ARGV[at])
      if content then add(kind .. ARGV[at], content) end
    end
  end
end
return reply
"""
)

REMOVE: Final = (
    _RENEW
    + """
-- KEYS: index, session, list; ARGV: version, ttl, code, name
local index, session = KEYS[1], KEYS[2]
if redis.call('HDEL', session, 'v:' .. ARGV[4], 'l:' .. ARGV[4]) == 0 then return 0 end
redis.call('UNLINK', KEYS[3])
if redis.call('HLEN', session) == 1 then
  redis.call('UNLINK', session)
  redis.call('ZREM', index, ARGV[3])
else
  redis.call('HSET', session, '=', ARGV[1])
  renew(index, session, ARGV[3], ARGV[2])
end
return 1
"""
)

DELETE: Final = (
    _RENEW
    + """
-- KEYS: index, session; ARGV: code
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
for _, list in ipairs(lists_of(KEYS[2])) do redis.call('UNLINK', list) end
redis.call('UNLINK', KEYS[2])
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
"""
)

VERSION: Final = "return redis.call('HGET', KEYS[2], '=')"
