"""Which answers of Redis say that it cannot serve now: work waits for it then, and nothing is counted (hazard 7)."""

import pytest
from redis._parsers.base import BaseParser
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    InvalidResponse,
    NoScriptError,
    ResponseError,
    TimeoutError,
)

from pentad.shared.store.refusals import is_outage, quit_after, refusal_of, said

REFUSED = {
    "READONLY You can't write against a read only replica.": "replica",
    "READONLY You can't write against a read only replica. script: 8d04, on @user_script:1.": "replica",
    "ERR Error running script (call to f_8d04): @user_script:12: -READONLY You can't write against ...": "replica",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)": "asking again",
    "UNBLOCKED the stream key no longer exists": "asking again",
    "REDIRECT 127.0.0.1:6379": "replica",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": "replica without its primary",
    "LOADING Redis is loading the dataset in memory": "loads its data",
    "OOM command not allowed when used memory > 'maxmemory'.": "maxmemory",
    "ERR Error running script: @user_script:3: OOM command not allowed when used memory > 'maxmemory'.": "maxmemory",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": "disk",
    "NOREPLICAS Not enough good replicas to write.": "replicas",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": "long script",
    "ERR Error running script 8d04, @user_script:1: Script killed by user with SCRIPT KILL...": "long script",
    "CLUSTERDOWN The cluster is down": "cluster",
    "ERR Script attempted to execute a write command while the cluster is down and readonly": "cluster",
    "TRYAGAIN Multiple keys request during rehashing of slot": "cluster",
    "MOVED 3999 127.0.0.1:6381": "one primary",
    "ASK 3999 127.0.0.1:6381": "one primary",
    "ERR Script attempted to access a non local key in a cluster node": "one primary",
    "WRONGTYPE Operation against a key holding the wrong kind of value": "one of our names",
    "WRONGTYPE Operation against a key holding the wrong kind of value script: 8d04, on @user_script:7.": "our names",
    "NOPERM User pentad has no permissions to run the 'xautoclaim' command": "docs/redis.md",
    "ERR ACL failure in script: No permissions to access a key": "docs/redis.md",
    "NOAUTH Authentication required.": "password",
    "WRONGPASS invalid username-password pair or user is disabled.": "password",
    "ERR max number of clients reached": "maxclients",
    "DENIED Running in protected mode because protected mode is enabled ...": "protected mode",
    "HOLIDAY a code that no version has had yet": "waiting",
}
"""What servers say, and a word of what we say that we wait for."""


def parsed(words: str) -> Exception:
    """As redis-py raises it."""
    error: Exception = BaseParser.parse_error(words)  # type: ignore[no-untyped-call]
    return error


@pytest.mark.parametrize("words", REFUSED)
def test_redis_that_says_no_is_an_outage_and_it_is_said_what_is_waited_for(words: str) -> None:
    for error in (ResponseError(words), parsed(words)):
        assert is_outage(error)
        assert REFUSED[words] in said(error)


@pytest.mark.parametrize(
    "error", [ConnectionError("gone"), TimeoutError("silent"), OSError("no route"), InvalidResponse("HTTP/1.1 400")]
)
def test_redis_that_does_not_answer_is_an_outage(error: Exception) -> None:
    assert is_outage(error)
    assert refusal_of(error) is None


def test_a_wrong_password_is_said_as_such() -> None:
    error = parsed("WRONGPASS invalid username-password pair")
    assert isinstance(error, AuthenticationError)
    assert "password of REDIS_URL" in said(error)


@pytest.mark.parametrize(
    "error",
    [
        ResponseError("BUSYGROUP Consumer Group name already exists"),
        ResponseError("BUSYKEY Target key name already exists."),
        ResponseError("NOGROUP No such key 'a' or consumer group 'b'"),
        ResponseError("ERR unknown command 'OOMPH'"),
        ResponseError("ERR no such key"),
        ResponseError("unknown operation nonsense"),
        NoScriptError("NOSCRIPT No matching script."),
        ValueError("OOM"),
    ],
)
def test_the_protocol_s_flow_and_a_wrong_command_are_no_outage(error: Exception) -> None:
    assert not is_outage(error)


def test_a_connection_is_given_up_when_its_server_is_not_the_one_to_ask() -> None:
    left = {words.split()[0] for words in REFUSED if quit_after(ResponseError(words)) is not None} - {"ERR"}
    assert left == {
        "READONLY", "UNBLOCKED", "REDIRECT", "MASTERDOWN", "MOVED", "ASK", "LOADING", "NOREPLICAS", "CLUSTERDOWN",
        "TRYAGAIN", "NOAUTH", "WRONGPASS",
    }  # fmt: skip
    assert quit_after(ResponseError("OOM command not allowed")) is None
