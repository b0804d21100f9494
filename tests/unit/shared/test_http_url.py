"""Addresses over HTTP that people write into settings."""

import pytest

from pentad.shared.addresses import read_http_url

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:11434/v1", "https://user:p%2Fw@host/v1?api-version=1", "http://[::1]:8080", "HTTPS://host"],
)
def test_an_address_is_taken(url: str) -> None:
    assert read_http_url(url).hostname


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}/x@host/v1",
        f"http://user:1/{SECRET}@host/v1",
        f"http://user:{SECRET}?x@host/v1",
        f"http://user:1?{SECRET}@host/v1",
        f"http://user:{SECRET}#x@host/v1",
        f"http://user:1#{SECRET}@host/v1",
        f"http://{SECRET}/@host",
        f"http://:{SECRET}",
        f"http:///{SECRET}",
        f"{SECRET}",
        f"ftp://{SECRET}@host",
        f"http://[{SECRET}",
        f"http://host:99999/{SECRET}",
    ],
)
def test_one_with_a_secret_in_a_wrong_place_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="must be") as refused:
        read_http_url(url)
    assert SECRET not in str(refused.value)
