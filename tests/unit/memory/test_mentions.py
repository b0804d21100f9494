"""Names are looked up by their own terms; a look-up that was cut off says nothing of names it has not seen whole."""

from pentad.shared.memory.mentions import mentions_in, most_asked, name_terms, names_kept, names_told
from pentad.shared.owners import Owner
from pentad.shared.recall.proper_names import NamesInText
from pentad.shared.recall.terms import terms_of
from pentad.shared.vectors.points import Hit, Payload

NAMES = ("ada byron", "oslo")


def hit(number: int, score: float, *sure: str) -> Hit:
    details = names_told(NamesInText(sure, ()))
    payload = Payload(Owner("t1"), "episodic", "response", "task-0-1", "s1", 0, 0, 0.0, "a", "text", details)
    return Hit(str(number), score, payload)


def test_names_are_read_as_they_were_told() -> None:
    for names in (NamesInText((), ()), NamesInText(("ada byron",), ()), NamesInText(("a&b", "红楼梦"), ("oslo",))):
        assert names_kept(names_told(names)) == names


def test_a_name_is_no_word() -> None:
    assert not name_terms(["oslo"]).keys() & set(terms_of("oslo Oslo name"))
    assert len(name_terms([*NAMES, "oslo"])) == 2


def test_each_name_has_the_segments_that_mention_it() -> None:
    hits = [hit(1, 3.0, *NAMES), hit(2, 2.0, "oslo"), hit(3, 2.0, "bergen")]
    assert mentions_in(hits, NAMES) == {"ada byron": ["1"], "oslo": ["1", "2"]}
    assert mentions_in([], NAMES) == {}


def test_a_name_that_may_have_been_cut_off_is_left_out() -> None:
    rare = [hit(1, 9.0, *NAMES), hit(2, 8.0, "ada byron")]
    common = [hit(number, 1.0, "oslo") for number in range(3, 1 + most_asked(NAMES))]
    hits = [*rare, *common]
    assert len(hits) == most_asked(NAMES)
    assert mentions_in(hits, NAMES) == {"ada byron": ["1", "2"]}
    assert "oslo" in mentions_in(hits[:-1], NAMES)
