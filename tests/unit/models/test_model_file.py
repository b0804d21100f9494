"""The file of models: both forms say the same, and each mistake is told with its place."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.entry_file import MOST_ENTRIES
from pentad.shared.errors import SettingsError
from pentad.shared.models.model_list import read_model_file

TWO: list[dict[str, Any]] = [
    {"id": "fast", "endpoint": "http://h:1/v1", "model": "m1", "default": True, "fallbacks": ["slow"],
     "parameters": {"temperature": 0.5}, "prices": {"input": 1.0, "output": 2.0}},
    {"id": "slow", "endpoint": "http://h:2/v1", "api_key_env": "SLOW_API_KEY"},
]  # fmt: skip
TOML = """
[[models]]
id = "fast"
endpoint = "http://h:1/v1"
model = "m1"
default = true
fallbacks = ["slow"]
parameters = { temperature = 0.5 }
prices = { input = 1.0, output = 2.0 }

[[models]]
id = "slow"
endpoint = "http://h:2/v1"
api_key_env = "SLOW_API_KEY"
"""


def refusal(tmp_path: Path, text: str | bytes, name: str = "models.json") -> str:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(SettingsError) as refused:
        read_model_file(path)
    said = str(refused.value)
    assert said.startswith(f"PENTAD_MODELS is wrong: {path}: ")
    return said


def listed(*rows: object) -> str:
    return json.dumps({"models": rows})


def test_json_and_toml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(listed(*TWO))
    (tmp_path / "m.toml").write_text(TOML)
    read = read_model_file(tmp_path / "m.json")
    assert [entry.id for entry in read] == ["fast", "slow"]
    assert read == read_model_file(tmp_path / "m.toml")


@pytest.mark.parametrize(
    ("text", "name", "place"),
    [
        ('{"models": [', "m.json", "line 1 column"),
        ("[[models]\nid=", "m.toml", "line 1, column"),
        (b"\xff\xfe", "m.toml", "no TOML"),
        (b"\xff\xfe", "m.json", "no JSON"),
        ("[" * 100_000, "m.json", "no JSON"),
        ("x=" + "[" * 100_000, "m.toml", "no TOML"),
        ("models: []", "m.yaml", "must end in .json or .toml"),
        ("[]", "m.json", "must hold a list `models`"),
        ('{"models": {}}', "m.json", "must hold a list `models`"),
        ('{"models": [], "model": []}', "m.json", "and nothing else"),
        (listed(TWO[0], 7), "m.json", "models[1]: "),
        (listed({**TWO[0], "endpoint": "ftp://x"}), "m.json", "models[0] ('fast').endpoint: must be an address"),
        (listed({**TWO[0], "prices": {"input": -1}}), "m.json", "models[0] ('fast').prices.input: "),
        (listed({**TWO[0], "apiKey": "sk-geheim"}), "m.json", "models[0] ('fast'): apiKey: a key does not belong here"),
        (listed(TWO[0], TWO[1], TWO[1]), "m.json", "models[2] ('slow').id: another model has it"),
        (listed({"id": "a", "default": True}, {"id": "b", "default": True}), "m.json", "models[1] ('b').default: "),
        (listed(TWO[0]), "m.json", "models[0] ('fast').fallbacks: there is no chat model slow"),
        (listed(TWO[0], {"id": "slow", "kind": "embedding"}), "m.json", "there is no chat model slow"),
        (listed({"id": "default"}), "m.json", "models[0] ('default').id: this one is kept"),
        (listed(*({"id": f"m{n}"} for n in range(MOST_ENTRIES + 1))), "m.json", f"at most {MOST_ENTRIES}"),
        (" " * ((1 << 20) + 1), "m.json", "longer than"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str | bytes, name: str, place: str) -> None:
    said = refusal(tmp_path, text, name)
    assert place in said
    assert "sk-geheim" not in said
    assert len(said) < 1000


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.json: No such file"):
        read_model_file(tmp_path / "gone.json")


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, listed({"id": "a", "begin_s": 0}, {"id": "b", "kind": "x"}))
    assert "models[0] ('a').begin_s" in said
    assert "models[1] ('b').kind" in said


def test_a_file_that_this_user_may_not_read_says_how_to_let_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(SettingsError, match=rf"Permission denied; let user {os.geteuid()} read it: chmod a\+r$"):
        read_model_file(Path("models.toml"))
