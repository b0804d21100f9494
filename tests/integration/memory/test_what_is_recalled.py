"""A task begins with what is about it: few alike requests do not pass for a subject, and long messages leave room."""

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from pentad.contracts.quotes import quotes_in
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.memory.ranking import MemoryHit, MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.task_recall import RecallQuestion
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.support.recalling import recalling
from tests.support.remembering import remember
from tests.unit.segments.transcripts import answered, said

ASKING = Requester(0, "acme", "s1")
NOW_MS = 1_900_000_000_000
REQUESTS = """
book a table at Luigi's for two; remind me to water the orchids; order printer paper; call the dentist Dr. Weber;
translate the contract into French; summarise the sales report; set an alarm for seven; send flowers to Anna;
find a flight to Bergen; renew the car insurance; write a greeting card for Tom; check the weather in Oslo;
convert 40 miles to kilometres; fix the typo in the readme; cancel the gym membership; pay the electricity bill;
compare two vacuum cleaners; plan a hike near Freiburg; draft an email to the landlord; list vegetarian recipes;
rename the branch to release-2; explain recursion with an example; proofread my cover letter; buy opera tickets;
schedule a meeting with Priya; count the words in my essay; sort these invoices by date; make a shopping list;
look up the opening hours of the library; track my parcel from Kyoto; calculate the tip for a bill of 80;
design a logo for the chess club; update the budget spreadsheet; recommend a novel set in Iceland;
test the login page on a phone; back up the photos of Lisbon; print the boarding passes; resize the picture;
look into the noise of the washing machine; repair the bicycle tyre; arrange a babysitter for Saturday;
return the blue jacket to the shop; measure the kitchen window; teach me ten words of Portuguese;
invite Marek to the housewarming; clean the coffee machine; estimate the cost of a heat pump; move the piano;
transcribe the interview with the mayor; choose a name for our kitten
"""
SESSIONS = [" ".join(each.split()) for each in REQUESTS.split(";")]
UNRELATED = [
    "Please tell me the capital of Mongolia.",
    "Please reverse a linked list in Rust.",
    "Could you please help me with my homework on photosynthesis?",
    "Please write a haiku about winter.",
    "How do I please a difficult customer?",
    "Please can you explain black holes?",
    "Please multiply 17 by 23.",
    "I need you to please generate a strong password.",
    "Please show me how to tie a bowline knot.",
    "Can you help me understand inflation, please?",
    "Please give me three facts about penguins.",
    "Please make it shorter.",
]
RELATED = {
    "Which table did I want at Luigi's?": "Luigi's",
    "Please order more printer paper.": "printer paper",
    "When is my appointment with Dr. Weber?": "Weber",
    "Please look for flights to Bergen again.": "Bergen",
    "What was the alarm set for?": "alarm",
    "Please send Anna something for her birthday.": "Anna",
    "Is the parcel from Kyoto here?": "Kyoto",
    "Which opera tickets did I ask for?": "opera",
    "Please plan another hike near Freiburg.": "Freiburg",
    "What is our kitten called?": "kitten",
}


@pytest.fixture
async def vectors(tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    made = EdgeVectors(tmp_path / "vectors")
    yield made
    await made.aclose()


async def requested(vectors: EdgeVectors, number: int) -> None:
    """Remember so many sessions of one short request each."""
    for place, request in enumerate(SESSIONS[:number]):
        told = answered(f"I have done that: {request}. Please tell me if you need anything else.")
        await remember(vectors, "acme", f"task-0-{place}", [said(f"Please {request}."), told])


async def quoted(store: Store, vectors: EdgeVectors, text: str) -> list[str]:
    asked = RecallQuestion(Owner("acme"), [text], (), "task-0-new", NOW_MS)
    found = await recalling(store, vectors).recall(asked, ASKING)
    assert found.outcome in ("recalled", "nothing")
    return [quote.text for quote in quotes_in(found.text)]


@pytest.mark.parametrize("number", [2, 10, 50])
async def test_a_task_about_something_else_quotes_nothing_of_short_alike_requests(
    store: Store, vectors: EdgeVectors, number: int
) -> None:
    await requested(vectors, number)
    assert {text: await quoted(store, vectors, text) for text in UNRELATED} == {text: [] for text in UNRELATED}


async def test_a_task_about_one_of_many_short_alike_requests_quotes_that_one(
    store: Store, vectors: EdgeVectors
) -> None:
    assert len(SESSIONS) == 50
    await requested(vectors, len(SESSIONS))
    found = {text: await quoted(store, vectors, text) for text in RELATED}
    assert {text for text, quotes in found.items() if not quotes or RELATED[text] not in quotes[0]} == set()
    assert sum(RELATED[text] not in quote for text, quotes in found.items() for quote in quotes) <= 4, found


async def search(vectors: EdgeVectors, text: str, limit: int) -> list[MemoryHit]:
    memory = MemorySearch(vectors, HashingEmbedder())
    return await memory.search(MemoryQuestion(Owner("acme"), text, limit, NOW_MS), ASKING)


async def test_long_answers_leave_room_for_what_the_user_said(vectors: EdgeVectors) -> None:
    """Each answer alone has more segments about the ferry than hits are asked for."""
    rivals = [
        answered("".join(f"{word} {n}: the ferry to Bergen leaves with room for cars. " * 12 for n in range(8)))
        for word in ("Monday", "Tuesday")
    ]
    talk = [said("I booked the ferry to Bergen."), rivals[0], said("Which ferry to Bergen takes cars?"), rivals[1]]
    await remember(vectors, "acme", "task-0-1", talk)
    every = await search(vectors, "When does my ferry to Bergen leave?", 100)
    assert sum(hit.payload.type == "response" for hit in every) > 8
    first = await search(vectors, "When does my ferry to Bergen leave?", 4)
    assert sorted(hit.payload.type for hit in first) == ["response", "response", "user_message", "user_message"]
    assert [hit.score for hit in every] == sorted((hit.score for hit in every), reverse=True)


async def test_what_a_user_always_wants_comes_first_at_a_request_about_its_subject(vectors: EdgeVectors) -> None:
    """Nothing that is said there names anybody, so that no name leads from one hit to the others."""
    for place, (who, sight) in enumerate(product(("aunt", "boss", "niece"), ("museum", "harbour", "market"))):
        talk = [said(f"The {sight} was closed on my travel with my {who}."), answered("A pity.")]
        await remember(vectors, "acme", f"task-0-{place}", talk)
    wish = "Always name train connections when I ask about travel."
    await remember(vectors, "acme", "task-0-99", [said(wish), answered("I will.")])
    hits = await search(vectors, "How should I travel to Porto?", 4)
    assert hits[0].payload.text == wish
    assert hits[0].parts["wishes"] > 0
