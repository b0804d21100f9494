"""Access tokens: what they state is believed while the key that signed them is there, and at no other time."""

import logging
import random
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.tokens import DEFAULT_TTL_S, MAX_TTL_S, RIGHTS, TOKEN_PREFIX, Right, TokenRequest
from pentad.services.gateway.domain.frames import UnreadableError, read_token_request
from pentad.services.gateway.edge.access import Access, Caller
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.edge.tokens import CLOCK_LEEWAY_MS, MAX_TOKEN_CHARS, Grant, written
from pentad.shared.service.http import Headers

KEYS = {"ka": "acme", "ka2": "acme", "kb": "bolt"}
BEGIN = 1_900_000_000_000
"""Time at which tokens are made here, in milliseconds."""
END = BEGIN + 60_000
ASKED = TokenRequest(session_id="s1", user_id="alice", may=("read", "send"), ttl_s=60)


class Clock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> int:
        return self.now


def bearer(secret: str) -> Headers:
    return [(b"authorization", f"Bearer {secret}".encode("utf-8", "surrogatepass"))]


def made(keys: dict[str, str] = KEYS, key: str = "ka", asked: TokenRequest = ASKED, now: int = BEGIN) -> str:
    access = Access(keys, "admin", now_ms=lambda: now)
    return access.token(access.caller(bearer(key)), asked).token


def refusal(access: Access, token: str) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        access.caller(bearer(token))
    return caught.value


def parts(token: str) -> tuple[list[Any], str]:
    """What a token states, and its signature."""
    text, _, signature = token.removeprefix(TOKEN_PREFIX).partition(".")
    return from_json(urlsafe_b64decode(text + "=" * (-len(text) % 4))), signature


def put_together(said: Any, signature: str) -> str:
    return f"{TOKEN_PREFIX}{urlsafe_b64encode(to_json(said)).rstrip(b'=').decode()}.{signature}"


def test_a_token_names_tenant_session_user_rights_and_end() -> None:
    clock = Clock()
    access = Access(KEYS, now_ms=clock)
    given = access.token(access.caller(bearer("ka")), ASKED)
    caller = access.caller(bearer(given.token))
    assert caller.grant == Grant("acme", "s1", "alice", ("read", "send"), BEGIN, END)
    assert (caller.tenant, caller.session, caller.admin, caller.key) == ("acme", "s1", False, b"")
    assert given.expires_at == "2030-03-17T17:47:40.000Z"
    assert 59 < (caller.left_s or 0) <= 60


def test_a_token_is_not_in_what_is_printed_of_it() -> None:
    access = Access(KEYS, now_ms=Clock())
    caller = access.caller(bearer("ka"))
    given = access.token(caller, ASKED)
    assert given.token not in repr(given)
    assert "ka" not in repr(caller)


def test_a_subprotocol_and_an_address_carry_it_too_and_a_header_counts_first() -> None:
    access, token = Access(KEYS, now_ms=Clock()), made()
    assert access.caller([], ["pentad.v1", f"bearer.{token}"]).session == "s1"
    assert access.caller([], (), token).session == "s1"
    assert access.caller(bearer("kb"), (), token).tenant == "bolt"
    with pytest.raises(ProblemError, match="API keys"):
        access.caller(bearer("wrong"), (), token)


@pytest.mark.parametrize("given", ["ka", "admin", "", made().removeprefix(TOKEN_PREFIX)])
def test_an_address_carries_tokens_alone(given: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Access(KEYS, "admin", now_ms=Clock()).caller([], (), given)
    assert caught.value.status == 401


def test_it_is_of_the_letters_that_every_place_takes() -> None:
    asked = TokenRequest(session_id="\U0001f30d" * 128, user_id="ü" * 128, may=RIGHTS, ttl_s=MAX_TTL_S)
    token = made(asked=asked)
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert len(token) < MAX_TOKEN_CHARS // 2
    grant = Access(KEYS, now_ms=Clock()).caller(bearer(token)).grant
    assert grant is not None
    assert (grant.session, grant.user) == ("\U0001f30d" * 128, "ü" * 128)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (END - 1, None),
        (END, "ended"),
        (END + 10**9, "ended"),
        (BEGIN - CLOCK_LEEWAY_MS, None),
        (BEGIN - CLOCK_LEEWAY_MS - 1, "not made yet"),
        (0, "not made yet"),
    ],
)
def test_it_is_valid_from_when_it_was_made_to_its_end_wherever_the_clock_steps(now: int, why: str | None) -> None:
    access, token = Access(KEYS, now_ms=lambda: now), made()
    if why is None:
        assert access.caller(bearer(token)).session == "s1"
    else:
        problem = refusal(access, token)
        assert (problem.status, why in problem.detail) == (401, True)


def test_the_end_of_what_a_token_has_opened_is_kept_when_the_clock_steps_back() -> None:
    clock, token = Clock(), made()
    clock.now = END - 1
    caller = Access(KEYS, now_ms=clock).caller(bearer(token))
    clock.now = BEGIN
    assert 0 <= (caller.left_s or 0.0) <= 0.001


def test_it_ends_with_the_key_that_has_made_it_and_no_other() -> None:
    token = made(key="ka2")
    assert Access({"kb": "bolt", "ka2": "acme"}, now_ms=Clock()).caller(bearer(token)).tenant == "acme"
    for keys in ({"ka": "acme", "kb": "bolt"}, {"ka2": "bolt"}, {}):
        assert refusal(Access(keys, now_ms=Clock()), token).status == 401


def test_no_changed_letter_and_no_cut_is_believed() -> None:
    access, token, chance = Access(KEYS, now_ms=Clock()), made(), random.Random(1)
    for at in range(len(TOKEN_PREFIX), len(token)):
        letter = chance.choice([each for each in "Az09-_.=+/" if each != token[at]])
        assert refusal(access, token[:at] + letter + token[at + 1 :]).status == 401
        assert refusal(access, token[:at]).status == 401
    for more in ("A", "=", ".", ".A", "\xe9", "\nA"):
        assert refusal(access, token + more).status == 401


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, "bolt"), (1, "s2"), (2, None), (2, "bob"), (3, RIGHTS), (3, []), (4, 0), (5, END + 1), (5, END * 10)],
)
def test_a_statement_under_another_ones_signature_is_not_believed(place: int, value: object) -> None:
    said, signature = parts(made())
    said[place] = value
    other, _ = parts(made(key="kb"))
    access = Access(KEYS, now_ms=Clock())
    assert refusal(access, put_together(said, signature)).status == 401
    assert refusal(access, put_together(other, signature)).status == 401


@pytest.mark.parametrize(
    "forged",
    [
        TOKEN_PREFIX,
        TOKEN_PREFIX + ".",
        TOKEN_PREFIX + "..",
        TOKEN_PREFIX + "." + parts(made())[1],
        TOKEN_PREFIX + "W10." + parts(made())[1],
        TOKEN_PREFIX + "A" * 1_000_000,
        made() + "A" * MAX_TOKEN_CHARS,
        "pt2." + made().removeprefix(TOKEN_PREFIX),
        made().removeprefix(TOKEN_PREFIX),
    ],
)
def test_what_is_no_token_lets_nobody_in(forged: str) -> None:
    assert refusal(Access(KEYS, now_ms=Clock()), forged).status == 401


def test_what_is_longer_than_any_token_is_refused_before_it_is_compared() -> None:
    access = Access(KEYS, now_ms=Clock())
    assert "not made with a key" in refusal(access, TOKEN_PREFIX + "A" * (MAX_TOKEN_CHARS - len(TOKEN_PREFIX))).detail
    assert "none that a gateway has made" in refusal(access, TOKEN_PREFIX + "A" * MAX_TOKEN_CHARS).detail


@pytest.mark.parametrize(
    "grant",
    [
        Grant("bolt", "s1", None, ("read",), BEGIN, END),
        Grant("acme", "s 1", None, ("read",), BEGIN, END),
        Grant("acme", "s1", "a/b", ("read",), BEGIN, END),
        Grant("acme", "s1", None, ("own",), BEGIN, END),  # type: ignore[arg-type]
        Grant("acme", "s1", None, ("read",), BEGIN, BEGIN + MAX_TTL_S * 1000 + 1),
        Grant("acme", "s1", None, ("read",), END, BEGIN),
        Grant("acme", ["s1"], None, ("read",), BEGIN, END),  # type: ignore[arg-type]
        Grant("acme", "s1", None, ("read",), BEGIN, 1e300),  # type: ignore[arg-type]
    ],
)
def test_a_key_signs_no_statement_that_the_gateway_would_not_make(grant: Grant) -> None:
    assert refusal(Access(KEYS, now_ms=Clock()), written(grant, b"ka")).status == 401


def test_refusals_do_not_repeat_the_token() -> None:
    for token in (made(), made() + "x", made(key="kb", now=BEGIN - 10**8)):
        problem = refusal(Access({"kc": "acme"}, now_ms=Clock()), token)
        said = problem.body().decode() + str(problem.headers())
        assert not any(part in said for part in token.removeprefix(TOKEN_PREFIX).split("."))


def test_a_token_makes_no_tokens_and_neither_does_the_admin_key() -> None:
    access = Access(KEYS, "admin", now_ms=Clock())
    for secret in (made(), "admin"):
        with pytest.raises(ProblemError) as caught:
            access.token(access.caller(bearer(secret)), ASKED)
        assert caught.value.status == 403


def test_an_open_gateway_keeps_the_holder_of_a_token_to_it_and_lets_everybody_else_in() -> None:
    access = Access({}, now_ms=Clock())
    token = access.token(access.caller([]), ASKED).token
    held = access.caller(bearer(token))
    assert (held.tenant, held.session, held.admin) == ("default", "s1", False)
    assert Access({}, now_ms=Clock()).caller(bearer(token)).session == "s1", "another replica"
    assert access.caller(bearer("anything")) == Caller("default", admin=True, key=access.caller([]).key)
    assert refusal(access, token[:-1]).status == 401
    assert refusal(Access(KEYS, now_ms=Clock()), token).status == 401


def test_what_a_token_does_not_name_is_refused() -> None:
    reads = Access(KEYS, now_ms=Clock()).caller(bearer(made(asked=TokenRequest(session_id="s1", may=("read",)))))
    reads.check("read")
    for right, why in (("send", "may not send"), ("approve", "may not approve"), (None, "needs an API key")):
        with pytest.raises(ProblemError, match=why) as caught:
            reads.check(right)  # type: ignore[arg-type]
        assert (caught.value.status, caught.value.code) == (403, ErrorCode.NOT_ALLOWED)


@pytest.mark.parametrize(
    ("may", "asked", "decides"),
    [("send", True, False), ("send", None, False), ("approve", None, None), ("approve", False, False)],
)
def test_words_of_a_message_decide_about_calls_only_where_its_token_may(
    may: Right, asked: bool | None, decides: bool | None
) -> None:
    grant = Grant("acme", "s1", "alice", ("send", may), BEGIN, END)
    assert grant.message({"content": "yes", "decides": asked})["decides"] is decides


@pytest.mark.parametrize(
    ("user", "body", "allowed"),
    [
        ("alice", {}, True),
        ("alice", {"session_id": "s1", "user_id": "alice"}, True),
        ("alice", {"session_id": "", "user_id": None}, True),
        ("alice", {"session_id": "s2"}, False),
        ("alice", {"session_id": ["s1"]}, False),
        ("alice", {"session_id": 0}, False),
        ("alice", {"user_id": "bob"}, False),
        ("alice", {"user_id": ""}, False),
        (None, {"user_id": "alice"}, False),
        (None, {"user_id": ["alice"]}, False),
    ],
)
def test_messages_are_of_the_tokens_session_and_user(user: str | None, body: dict[str, Any], allowed: bool) -> None:
    grant = Grant("acme", "s1", user, ("send",), BEGIN, END)
    if allowed:
        of = {"content": "hi", "session_id": "s1", "user_id": user}
        assert grant.message({"content": "hi", **body}) == of | {"decides": False}
        return
    with pytest.raises(ProblemError) as caught:
        grant.message({"content": "hi", **body})
    assert caught.value.status == 403


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"session_id": "s1"},
        {"session_id": "s1", "may": []},
        {"session_id": "s1", "may": "read"},
        {"session_id": "s1", "may": ["read", "read"]},
        {"session_id": "s1", "may": ["read"] * 100_000},
        {"session_id": "s1", "may": ["own"]},
        {"session_id": "s1", "may": ["read", "Send"]},
        {"session_id": "s1", "may": ["read", None]},
        {"session_id": "s 1", "may": ["read"]},
        {"session_id": "s" * 129, "may": ["read"]},
        {"session_id": "s1", "may": ["read"], "user_id": ""},
        {"session_id": "s1", "may": ["read"], "user": "alice"},
        {"session_id": "s1", "may": ["read"], "tenant_id": "bolt"},
        {"session_id": "s1", "may": ["read"], "ttl_s": 0},
        {"session_id": "s1", "may": ["read"], "ttl_s": -1},
        {"session_id": "s1", "may": ["read"], "ttl_s": MAX_TTL_S + 1},
        {"session_id": "s1", "may": ["read"], "ttl_s": 10**400},
        {"session_id": "s1", "may": ["read"], "ttl_s": 1.5},
        {"session_id": "s1", "may": ["read"], "ttl_s": "60"},
        {"session_id": "s1", "may": ["read"], "ttl_s": True},
    ],
)
def test_a_request_for_what_no_token_is_is_refused_with_its_reason(asked: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match=r"session_id|may|user|tenant_id|ttl_s") as caught:
        read_token_request(asked)
    assert len(str(caught.value)) < 2_000


def test_a_token_lives_a_quarter_of_an_hour_unless_it_is_said() -> None:
    assert read_token_request({"session_id": "s1", "may": ["approve"]}).ttl_s == DEFAULT_TTL_S == 900


def test_a_page_that_is_refused_is_logged_in_one_short_line_with_the_setting_that_lets_it_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    origin = b"https://evil.example/\n\x1b[2J\xff" + b"x" * 10_000
    caplog.set_level(logging.WARNING)
    for page in (origin, b"https://other.example"):
        headers = [(b"host", b"127.0.0.1:8080"), (b"origin", page)]
        with pytest.raises(ProblemError):
            Access({}, origins=frozenset({"https://good.example"})).check_site(headers)
    Access({}, origins=frozenset({"https://good.example"})).check_site([(b"origin", b"https://good.example")])
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith(r"refused a page of 'https://evil.example/\n\x1b[2J\xffxxx")
    assert "PENTAD_CORS_ORIGINS" in line
    assert line.isprintable()
    assert len(line) < 400
