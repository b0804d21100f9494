"""No spelling of an address leads inside, and what a name leads to is looked up once and checked."""

from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from pentad.shared.outbound.address_guard import AddressGuard, OutboundError, RefusedAddressError, kind_of_inside

INSIDE = """
127.0.0.1 127.1.2.3 127.255.255.254 127.0.0.1. 0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200
100.127.255.255 168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1
192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1
255.255.255.255
::1 0:0:0:0:0:0:0:1 :: ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::127.0.0.1 ::7f00:1
64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::7f00:1 2002:7f00:1:: 2002:a9fe:a9fe::1
2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 2001:10::1 3fff::1 100::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0
fe80::1%25eth0 febf::1 fec0::1 ff02::1 ff0e::1 2600:db8::5efe:10.0.0.1 2600:db8::200:5efe:127.0.0.1 5f00::1 4000::1
2130706433 0 017700000001 0x7f000001 0x7F.0.0.1 127.1 127.0.1 0177.0.0.1 00.0.0.0 0x7f.1 10.0.0.0x1 1 3232235777
192.168.257 192.168.0.01 0xa9fea9fe 2852039166 169.254.43518 127.0.0.0x1. 4294967295 0x 08.8.8.8 1.1.1.256 1.2.3.4.5
""".split()
OUTSIDE = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 128.0.0.1 169.253.0.1 169.255.0.1 172.15.0.1
172.32.0.1 192.167.1.1 192.169.1.1 198.17.0.1 198.20.0.1 223.255.255.255 2606:4700::1111 2a00:1450:4001::200e
64:ff9b::8.8.8.8 2001:4860:4860::8888 2600:db8::5efe:8.8.8.8
""".split()


async def unasked(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"{host} was looked up")


def test_the_table_has_at_least_sixty_addresses() -> None:
    assert len(set(INSIDE)) == len(INSIDE) >= 60


@pytest.mark.parametrize("host", INSIDE)
async def test_no_spelling_of_an_address_inside_is_let_through(host: str) -> None:
    with pytest.raises(RefusedAddressError, match=r"only addresses of the public internet|read in several ways"):
        await AddressGuard(resolver=unasked).addresses(host, 80)


@pytest.mark.parametrize("address", OUTSIDE)
async def test_an_address_of_the_internet_is_let_through_as_it_is(address: str) -> None:
    assert kind_of_inside(ip_address(address)) is None
    assert await AddressGuard(resolver=unasked).addresses(address, 443) == [str(ip_address(address))]


@pytest.mark.parametrize(
    "found", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["2606:4700::1111", "fe80::1%2"], ["::ffff:10.0.0.1"]]
)
async def test_a_name_of_which_one_address_is_inside_is_refused_as_a_whole(found: list[str]) -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return found

    with pytest.raises(RefusedAddressError, match=r"^evil\.example leads to an address that is .*PENTAD_WEB_ALLOW"):
        await AddressGuard(resolver=resolver).addresses("evil.example", 80)


async def test_the_name_of_this_machine_is_refused_by_what_the_system_says_it_leads_to() -> None:
    with pytest.raises(RefusedAddressError, match="loopback"):
        await AddressGuard().addresses("LocalHost", 80)


@pytest.mark.parametrize(
    ("allowed", "host", "port", "is_allowed"),
    [
        ("127.0.0.1", "127.0.0.1", 81, True),
        ("127.0.0.1:81", "127.0.0.1", 81, True),
        ("127.0.0.1:81", "127.0.0.1", 82, False),
        ("127.0.0.1", "127.0.0.2", 81, False),
        ("[::1]:81", "::1", 81, True),
        ("[::1]", "::1", 81, True),
        ("wiki.inside", "WIKI.inside.", 80, True),
        ("wiki.inside", "x.wiki.inside", 80, False),
        ("127.0.0.1", "2130706433", 80, False),
    ],
)
async def test_a_host_is_allowed_by_its_name_and_port_alone(
    allowed: str, host: str, port: int, is_allowed: bool
) -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return ["10.1.2.3"]

    guard = AddressGuard([allowed], resolver=resolver)
    if is_allowed:
        assert await guard.addresses(host, port)
    else:
        with pytest.raises(RefusedAddressError):
            await guard.addresses(host, port)


@pytest.mark.parametrize("port", [0, 65_536, -1, 99_999_999])
async def test_a_port_that_no_server_has_is_refused(port: int) -> None:
    with pytest.raises(RefusedAddressError, match=r"ports go from 1 to 65535"):
        await AddressGuard(["8.8.8.8"], resolver=unasked).addresses("8.8.8.8", port)


@pytest.mark.parametrize("host", ["a..b", "x" * 300, "nowhere.invalid", "a b", "ex%61mple.invalid"])
async def test_a_name_that_leads_nowhere_is_told_as_that(host: str) -> None:
    with pytest.raises(OutboundError, match="has no address") as refused:
        await AddressGuard().addresses(host, 80)
    assert len(str(refused.value)) < 300


async def test_a_name_without_addresses_is_told_as_that() -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return []

    with pytest.raises(OutboundError, match=r"^empty\.example has no address$"):
        await AddressGuard(resolver=resolver).addresses("empty.example", 80)
