"""Which answers of Redis say that it cannot serve now: work waits for it then, and nothing is counted (hazard 7)."""

import pytest
from redis.exceptions import ConnectionError, NoScriptError, ResponseError, TimeoutError

from shared.state.store import is_outage


@pytest.mark.parametrize(
    "said",
    [
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "ERR Error running script: @user_script:3: OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "NOREPLICAS Not enough good replicas to write.",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    ],
)
def test_redis_that_says_no_is_an_outage(said: str) -> None:
    assert is_outage(ResponseError(said))


@pytest.mark.parametrize("error", [ConnectionError("gone"), TimeoutError("silent"), OSError("no route")])
def test_redis_that_does_not_answer_is_an_outage(error: Exception) -> None:
    assert is_outage(error)


@pytest.mark.parametrize(
    "error",
    [
        ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
        ResponseError("BUSYGROUP Consumer Group name already exists"),
        ResponseError("BUSYKEY Target key name already exists."),
        ResponseError("NOGROUP No such key 'a' or consumer group 'b'"),
        ResponseError("ERR unknown command 'OOMPH'"),
        NoScriptError("NOSCRIPT No matching script."),
        ValueError("OOM"),
    ],
)
def test_a_wrong_command_is_no_outage(error: Exception) -> None:
    assert not is_outage(error)
