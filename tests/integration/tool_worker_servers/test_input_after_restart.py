"""An answer to a server's question counts after the server was restarted, which then knows its own state no more."""

from pathlib import Path

from pentad.contracts.suspensions import Resumption, Suspension
from tests.integration.tool_worker_servers.conftest import Offer
from tests.support.mcp.entries import program
from tests.support.waiting import wait_until


def answer(asked: Suspension | None, seats: int) -> Resumption:
    assert asked is not None
    return Resumption(needs="input", content={"seats": seats}, state=asked.state)


async def test_a_question_that_is_asked_again_in_the_same_words_gets_the_same_answer(
    offer: Offer, tmp_path: Path
) -> None:
    server = program("s", tmp_path)
    async with offer(server) as offering:
        await wait_until("the tools", lambda: "s__book" in offering.names)
        asked = (await offering.call("s__book", city="Rome")).suspension
    async with offer(server) as offering:
        await wait_until("the tools", lambda: "s__book" in offering.names)
        booked = await offering.call("s__book", city="Rome", resumed=answer(asked, 3))
    assert (booked.kind, booked.text) == ("ok", "3 seats to Rome")
    assert (tmp_path / "ledger").read_text() == "book to Rome accept {'seats': 3}\n"


async def test_another_question_is_asked_of_the_person(offer: Offer, tmp_path: Path) -> None:
    """Whoever has said yes to one question has not said yes to another."""
    async with offer(program("s", tmp_path)) as offering:
        await wait_until("the tools", lambda: "s__book" in offering.names)
        asked = (await offering.call("s__book", city="Rome")).suspension
    (tmp_path / "question").write_text("How many seats, at twice the price?")
    async with offer(program("s", tmp_path)) as offering:
        await wait_until("the tools", lambda: "s__book" in offering.names)
        again = await offering.call("s__book", city="Rome", resumed=answer(asked, 3))
        assert (again.kind, again.suspension and again.suspension.message) == (
            "suspended",
            "How many seats, at twice the price?",
        )
        booked = await offering.call("s__book", city="Rome", resumed=answer(again.suspension, 2))
    assert booked.text == "2 seats to Rome"
