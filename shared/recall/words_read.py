"""What was read of texts: of a task that goes on, only what is new is read."""

from collections.abc import Sequence

from pentad.shared.recall.proper_names import NamesInText, names_of
from pentad.shared.recall.terms import terms_of


class WordsRead:
    """Gives the same as `names_of` and `terms_of`. As large as the texts that it was given; threads may share it."""

    __slots__ = ("_names", "_terms")

    def __init__(self) -> None:
        self._names: dict[str, NamesInText] = {}
        self._terms: dict[str, Sequence[int]] = {}

    def names(self, text: str) -> NamesInText:
        """The names in a text."""
        found = self._names.get(text)
        if found is None:
            found = self._names[text] = names_of(text)
        return found

    def terms(self, text: str) -> Sequence[int]:
        """The words of a text."""
        found = self._terms.get(text)
        if found is None:
            found = self._terms[text] = tuple(terms_of(text))
        return found
