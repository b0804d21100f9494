"""What is wrong with an address is said before anything connects, and without its password."""

import pytest

from pentad.shared.addresses import redis_files
from pentad.shared.errors import SettingsError
from pentad.shared.settings import load_settings


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://user:p%40ss%23@h:6379/3",
        "redis://[::1]:6379/0",
        "redis://h?protocol=2&client_name=pentad&socket_connect_timeout=1.5",
        "rediss://h:1/0?ssl_ca_certs=/a/ca.crt&ssl_cert_reqs=required&ssl_check_hostname=false",
        "unix:///run/redis.sock?db=1",
    ],
)
def test_what_a_redis_can_have(url: str) -> None:
    assert load_settings({"REDIS_URL": url}).redis_url == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://h", "must start with redis://"),
        ("redis://:secret@h:port", "must be redis://USER:PASSWORD@HOST:PORT/DB"),
        ("redis://:sec#ret@h:1", "must be redis://USER:PASSWORD@HOST:PORT/DB"),
        ("redis://:sec/ret@h:1", "must be redis://USER:PASSWORD@HOST:PORT/DB"),
        ("redis://:sec?ret@h:1", "must be redis://USER:PASSWORD@HOST:PORT/DB"),
        ("redis://:1?sec=ret@h", "must be redis://USER:PASSWORD@HOST:PORT/DB"),
        ("redis://:1/sec?ret@h", "must be"),
        ("redis://:1/0?sec#ret@h", "must be redis://USER:PASSWORD@HOST:PORT/DB"),
        ("redis://h?Sec-ret=1", "it has an option of another name"),
        ("redis://:secret@h:0", "must be redis://USER:PASSWORD@HOST:PORT/DB"),
        ("redis://:secret@h:99999", "must be redis://USER:PASSWORD@HOST:PORT/DB"),
        ("redis://:secret@h/main", "must be the number of a database"),
        ("redis://:secret@h?protocol=3", "its option protocol must be 2"),
        ("redis://:secret@h?decode_responses=true", "it has an option decode_responses, and can have db,"),
        ("redis://:secret@h?max_connections=5", "it has an option max_connections"),
        ("redis://:secret@h?db=main", "its option db must be"),
        ("rediss://:secret@h?ssl_cert_reqs=perhaps", "must be required|optional|none"),
        ("rediss://:secret@h?ssl_ca_certs=", "its option ssl_ca_certs must be set"),
        ("redis://:secret@h?ssl_ca_certs=/ca", "rediss:// instead of redis://"),
    ],
)
def test_what_no_redis_can_have_is_refused(url: str, words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({"REDIS_URL": url})
    assert str(refused.value).startswith("REDIS_URL is wrong: ")
    assert words in str(refused.value)
    assert "sec" not in str(refused.value).replace("seconds", "")


def test_the_files_that_it_names() -> None:
    url = "rediss://h?ssl_ca_certs=/a%20b/ca.crt&ssl_keyfile=k&db=1"
    assert redis_files(url) == {"ssl_ca_certs": "/a b/ca.crt", "ssl_keyfile": "k"}
