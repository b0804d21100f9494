"""The table of streams in docs/streams.md, made from the registry.

``python -m tests.support.documents.streams_table`` writes it anew.
"""

from pathlib import Path

from pentad.contracts.asyncapi import carried, type_name
from pentad.contracts.streams import STREAMS, Stream

STREAMS_PAGE = Path(__file__).parents[3] / "docs" / "streams.md"
BEGIN, END = "<!-- streams: made by python -m tests.support.documents.streams_table -->", "<!-- end of streams -->"


def tables() -> str:
    """A row for each stream, then a row for each message with the streams that carry it."""
    rows = [f"| {' | '.join(_row(stream))} |" for stream in STREAMS.values()]
    head = "| key | what for | carries | written by | read by | group | set aside in | kept |"
    messages = [f"| `{type_name(contract)}` | {_meaning(contract)} | {_found_in(contract)} |" for contract in carried()]
    return "\n".join([head, "|" + "---|" * 8, *rows, "", "| message | meaning | streams |", "|---|---|---|", *messages])


def _row(stream: Stream) -> list[str]:
    carries = "an event" if len(stream.carries) > 9 else ", ".join(f"`{type_name(c)}`" for c in stream.carries)
    return [
        f"`{stream.template}`",
        stream.description.removesuffix("."),
        carries,
        ", ".join(stream.writers),
        ", ".join(stream.readers),
        f"`{stream.group}`" if stream.group else "",
        f"`{STREAMS[stream.dead].template}`" if stream.dead else "",
        stream.retention,
    ]


def _meaning(contract: type) -> str:
    return (contract.__doc__ or "").strip().partition("\n")[0].strip().replace("``", "`").replace("|", "\\|")


def _found_in(contract: type) -> str:
    return ", ".join(stream.name for stream in STREAMS.values() if contract in stream.carries)


def written() -> str:
    """The tables as docs/streams.md has them."""
    return _parts()[1].strip()


def _parts() -> tuple[str, str, str]:
    before, _, rest = STREAMS_PAGE.read_text().partition(BEGIN)
    inside, _, after = rest.partition(END)
    return before, inside, after


def rewrite() -> None:
    """Puts today's tables into docs/streams.md."""
    before, _, after = _parts()
    STREAMS_PAGE.write_text(f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}")


if __name__ == "__main__":
    rewrite()
