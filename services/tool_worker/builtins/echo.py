"""The simplest tool there is."""


def echo(text: str) -> str:
    """Returns the text unchanged.

    Args:
        text: What to return.
    """
    return text
