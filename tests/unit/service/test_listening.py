"""Which port a service gets."""

import logging
import socket
from collections.abc import Iterator

import pytest

from pentad.contracts.streams import SERVICES
from pentad.shared.errors import SettingsError
from pentad.shared.service.runnable import DEFAULT_PORTS, address_of, claim_port


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_ports_are_8080_and_9101_to_9105_in_the_order_of_the_services() -> None:
    assert list(DEFAULT_PORTS) == list(SERVICES)
    assert list(DEFAULT_PORTS.values()) == [8080, 9101, 9102, 9103, 9104, 9105]


def test_a_default_port_that_is_taken_becomes_a_free_one_and_is_logged(
    taken: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), claim_port("127.0.0.1", None, taken) as sock:
        port = sock.getsockname()[1]
    assert port not in (0, taken)
    assert f"port {taken} is taken: listening on port {port}" in caplog.text


def test_an_explicit_port_that_is_taken_is_refused(taken: int) -> None:
    with pytest.raises(SettingsError, match=f"port {taken} on 127.0.0.1 is taken: choose another"):
        claim_port("127.0.0.1", taken, 8080)


def test_a_claimed_port_is_nobody_else_s() -> None:
    with claim_port("127.0.0.1", 0) as sock, pytest.raises(SettingsError):
        claim_port("127.0.0.1", sock.getsockname()[1])


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host"])
def test_a_host_that_is_not_ours_is_refused_also_for_a_default_port(host: str) -> None:
    with pytest.raises(SettingsError, match=f"cannot listen on {host}"):
        claim_port(host, None, 0)


def test_addresses_can_be_opened() -> None:
    with claim_port("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert address_of(sock, "127.0.0.1") == f"http://127.0.0.1:{port}"
        assert address_of(sock, "::1") == f"http://[::1]:{port}"
