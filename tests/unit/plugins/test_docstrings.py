"""A docstring in any common style becomes a description and one text per parameter."""

import pytest

from pentad.shared.plugins.docstrings import parse_docstring

_GOOGLE = """Weather of a city.

    Right now, not tomorrow.

    Args:
        city (str): Where,
            in English.
        unit: celsius: or kelvin
        *more: What else

    Returns:
        Text: like this.
    """
_SPHINX = """Weather of a city.

    Right now, not tomorrow.

    :param str city: Where,
        in English.
    :param unit: celsius: or kelvin
    :type unit: str
    :param more: What else
    :returns: Text
    """
_NUMPY = """Weather of a city.

    Right now, not tomorrow.

    Parameters
    ----------
    city : str
        Where,
        in English.
    unit
        celsius: or kelvin
    more : list of str, optional
        What else

    Returns
    -------
    text : str
        Like this.
    """


@pytest.mark.parametrize("text", [_GOOGLE, _SPHINX, _NUMPY], ids=["google", "sphinx", "numpy"])
def test_every_style_is_understood(text: str) -> None:
    doc = parse_docstring(text)
    assert doc.description == "Weather of a city.\n\nRight now, not tomorrow."
    assert doc.parameters == {"city": "Where, in English.", "unit": "celsius: or kelvin", "more": "What else"}


@pytest.mark.parametrize(
    ("text", "description", "parameters"),
    [
        (None, "", {}),
        ("One line.", "One line.", {}),
        ("One.\n\nArgs:\n  a: x\n\nAnd prose.", "One.\n\nAnd prose.", {"a": "x"}),
        ("One.\n\nArguments:\n    a: x\n    b:\n        y\n    c:", "One.", {"a": "x", "b": "y"}),
        ("Returns: the sum.", "Returns: the sum.", {}),
        ("One.\n\n- a list\n- of two", "One.\n\n- a list\n- of two", {}),
        ("One.\n\nParameters\n----------\na, b : int\n    both", "One.", {"a": "both", "b": "both"}),
        ("One.\n\nNotes\n-----\nLong ones.\n", "One.", {}),
        (":param a: x", "", {"a": "x"}),
    ],
)
def test_prose_and_sections_are_kept_apart(text: str | None, description: str, parameters: dict[str, str]) -> None:
    doc = parse_docstring(text)
    assert (doc.description, doc.parameters) == (description, parameters)
