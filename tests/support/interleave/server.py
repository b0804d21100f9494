"""The real server, which gets one command at a time, with Pentad's scripts on a virtual clock.

Leases and timers ask the clock through the scripts' library, ids of entries are made of it, and idle times of pending
entries are kept beside them. A copy of all that it holds can be put back: a replica that lacked the last writes.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from redis.connection import Connection
from redis.exceptions import ResponseError

from pentad.shared.store.script import Script, linked, script_files
from pentad.shared.store.store import Argument
from tests.support.interleave.rule import Rule

Copy = Sequence[tuple[bytes, int, bytes]]
"""Keys with their remaining time in milliseconds (0: no end) and their values."""
CLOCK = "test:clock"
_GIVEN = "test:given"

_REAL_CALL = "local call = redis.call\n"
_VIRTUAL_CALL = f"""
local call
do
  local function clock() return tonumber(redis.call('GET', '{CLOCK}')) end
  local function given(stream, id) redis.call('HSET', '{_GIVEN}', stream .. ' ' .. id, clock()) end
  local function idle(stream, id)
    return clock() - tonumber(redis.call('HGET', '{_GIVEN}', stream .. ' ' .. id) or '0')
  end
  local virtual = {{}}

  function virtual.TIME()
    local t = clock()
    return {{math.floor(t / 1000), (t % 1000) * 1000}}
  end

  function virtual.XADD(...)
    local command = {{...}}
    for n = 2, #command do
      if command[n] == 'data' or command[n] == 's' then break end
      if command[n] == '*' then
        command[n] = clock() .. '-*'
        local id = redis.pcall('XADD', unpack(command))
        if type(id) ~= 'table' then return id end
        break -- the last id is ahead of the clock: the server itself goes on from there
      end
    end
    return redis.call('XADD', ...)
  end

  function virtual.XREADGROUP(...)
    local reply = redis.call('XREADGROUP', ...)
    for _, entry in ipairs(reply and reply[1][2] or {{}}) do given(reply[1][1], entry[1]) end
    return reply
  end

  function virtual.XCLAIM(stream, group, consumer, least, ...)
    local ids = {{}}
    for _, id in ipairs({{...}}) do
      local is_id = string.match(id, '^%d+%-%d+$')
      if not is_id or tonumber(least) == 0 or idle(stream, id) >= tonumber(least) then
        ids[#ids + 1] = id
        if is_id then given(stream, id) end
      end
    end
    if #ids == 0 or not string.match(ids[1], '^%d') then return {{}} end
    return redis.call('XCLAIM', stream, group, consumer, 0, unpack(ids))
  end

  function virtual.XPENDING(stream, group, ...)
    local reply, range = redis.call('XPENDING', stream, group, ...), {{...}}
    if #range == 0 then return reply end
    assert(range[1] ~= 'IDLE', 'not simulated')
    for _, p in ipairs(reply) do p[3] = math.max(0, idle(stream, p[1])) end
    return reply
  end

  function virtual.XAUTOCLAIM(stream, group, consumer, least)
    local claimed = {{}}
    for _, p in ipairs(redis.call('XPENDING', stream, group, '-', '+', 100)) do
      for _, entry in ipairs(virtual.XCLAIM(stream, group, consumer, least, p[1])) do claimed[#claimed + 1] = entry end
    end
    return {{'0-0', claimed}}
  end

  function call(command, ...)
    if virtual[command] then return virtual[command](...) end
    return redis.call(command, ...)
  end
end
"""
_DIRECT = f"{_VIRTUAL_CALL} return call(unpack(ARGV))"
_TIMED = frozenset({"XADD", "XREADGROUP", "XCLAIM", "XPENDING", "XAUTOCLAIM"})
"""Commands whose effect or reply depends on the server's clock."""
_COPY = f"""
local copy = {{}}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if key ~= '{CLOCK}' then copy[#copy + 1] = {{key, redis.call('PTTL', key), redis.call('DUMP', key)}} end
end
return copy
"""


def virtual_scripts(broken: Rule | None) -> dict[str, Script]:
    """Return Pentad's scripts on the virtual clock, with the changes of a dropped rule."""
    texts = script_files()
    for edit in broken.edits if broken is not None else ():
        texts[edit.script] = _replaced(texts[edit.script], edit.kept, edit.dropped)
    assert texts["_lib"].count(_REAL_CALL) == 1
    bodies = {name: script.body.replace(_REAL_CALL, _VIRTUAL_CALL) for name, script in linked(texts).items()}
    return {name: Script(name, body) for name, body in bodies.items()}


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"the script no longer says {old!r} exactly once"
    return text.replace(old, new)


class Bell:
    """Wakes those who wait for an inbound entry, as a blocked read does."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        """Wake all who wait."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait until it rings, or this long."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await asyncio.wait([future], timeout=seconds)


class Server:
    """One connection, used by one command at a time: every command is an instant."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        make: Any = Connection
        self._wire = make(host=parts.hostname or "", port=parts.port or 6379, protocol=2)
        self._wire.connect()
        self._loaded: dict[str, bytes] = {}
        self._clock = 0
        self.bell = Bell()

    def begin(self, scripts: Mapping[str, Script]) -> None:
        """Empty the server and make the scripts known."""
        self._many([("FLUSHALL",), *(("SCRIPT", "LOAD", s.body) for s in scripts.values())])
        self._clock = 0
        self.bell = Bell()
        self._load_own()

    def _load_own(self) -> None:
        (self._direct,) = self._many([("SCRIPT", "LOAD", _DIRECT)])

    def copy(self) -> Copy:
        """Return a copy of all keys of the server."""
        return [(key, max(ttl, 0), value) for key, ttl, value in self.ask("EVAL", _COPY, 0)]

    def put_back(self, copy: Copy, forget_scripts: bool) -> None:
        """Replace all data by an earlier copy; a new primary may not know Pentad's scripts."""
        self._many([("FLUSHALL",), *(("RESTORE", key, ttl, value) for key, ttl, value in copy)])
        self._clock = 0
        if forget_scripts:
            self.ask("SCRIPT", "FLUSH")
            self._load_own()
        self.bell.ring()

    def append(self, key: str, body: bytes, now_ms: int) -> bytes:
        """Append an entry from outside at this time; returns its id."""
        entry: bytes = self.execute(("XADD", key, "*", "data", body), now_ms)
        self.bell.ring()
        return entry

    def ask(self, *command: Argument) -> Any:
        """Execute a command of the checks; raises what the server says."""
        return self.ask_all([command])[0]

    def ask_all(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Execute commands of the checks on one way to the server and back; raises the first error that it answers."""
        replies = self._many(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def execute(self, command: Sequence[Argument], now_ms: int) -> Any:
        """Execute a command of a simulated process at this time; errors are returned."""
        if command[0] == "TIME":
            return [b"%d" % (now_ms // 1000), b"%d" % (now_ms % 1000 * 1000)]
        if command[0] in _TIMED:
            command = ("EVALSHA", self._direct, 0, *command)
        if now_ms == self._clock:
            return self._many([command])[0]
        self._clock = now_ms
        return self._many([("SET", CLOCK, now_ms), command])[1]

    def close(self) -> None:
        """Close the connection."""
        self._wire.disconnect()

    def _many(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        self._wire.send_packed_command(self._wire.pack_commands(commands))
        return [self._reply() for _ in commands]

    def _reply(self) -> Any:
        try:
            return self._wire.read_response()
        except ResponseError as error:
            return error
