"""A command that is written wrongly ends with 2 and one line that says how."""

import pytest

from pentad.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["send"], "TEXT"),
        (["send", ""], "a message has 1 to 65536 characters, this one has 0"),
        (["send", "x" * 65_537], "this one has 65537"),
        (["send", "hi", "--task", "../../etc"], "'../../etc' is no name"),
        (["send", "hi", "--session", "a\nb"], "is no id"),
        (["send", "hi", "--timeout", "0"], "is not a number of seconds"),
        (["send", "hi", "--timeout", "nan"], "is not a number of seconds"),
        (["tasks", "--status", "done"], "invalid choice: 'done'"),
        (["tasks", "--limit", "0"], "'0' is not a number from 1"),
        (["tasks", "--limit", "9" * 5000], "is not a number from 1"),
        (["chat", "--session", "ü/"], "is no id: 1 to 128 printable characters without spaces and /"),
        (["serve", "nothing"], "invalid choice: 'nothing'"),
        (["up", "--port", "x"], "is not a port"),
        (["nothing"], "invalid choice: 'nothing'"),
        (["--debug"], "COMMAND"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    text = capsys.readouterr().err
    assert (ended.value.code, text.count("\n"), said in text, "--help" in text) == (2, 1, True, True)
    assert len(text) < 1000


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "send" in capsys.readouterr().out
