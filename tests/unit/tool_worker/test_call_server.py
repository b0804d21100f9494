"""A child serves from its first moment on: the worker may speak before the child has begun to listen."""

import asyncio
import socket

import uvloop

from pentad.services.tool_worker.children.call_server import CallServer
from pentad.services.tool_worker.children.tool_frames import pack


def test_what_was_sent_before_the_child_listened_is_answered() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(10)
        ours.sendall(pack(["ping", 7]) + pack(["stop"]))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(CallServer({}, 1).serve(theirs))
        assert ours.recv(100) == pack(["pong", 7])
