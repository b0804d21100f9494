"""Files that messages name: a line for every model, an image for one that sees it, and no field that servers refuse."""

from pydantic_core import from_json, to_json

from pentad.shared.attached_files import files_in, with_files

URL = "data:image/png;base64,AAAA"
SYSTEM = to_json({"role": "system", "content": "Be brief."})
ASKED = to_json({"role": "user", "content": "What is it?", "files": ["a.png", "b.csv"]})
CALLS = to_json({"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]})
DRAWN = to_json({"role": "tool", "tool_call_id": "1", "content": "[file x/p.png]", "files": ["x/p.png"]})
PLAIN = to_json({"role": "tool", "tool_call_id": "2", "content": "42"})


def test_what_names_no_file_is_sent_as_it_is() -> None:
    quoted = to_json({"role": "user", "content": 'say "files":["a"]'})
    prompt = [SYSTEM, quoted, CALLS, PLAIN]
    assert with_files(prompt, {"a": URL}) is prompt
    assert files_in(quoted) == []


def test_a_model_without_sight_gets_a_line() -> None:
    sent = [from_json(line) for line in with_files([SYSTEM, ASKED, CALLS, DRAWN, PLAIN], {})]
    assert sent[1] == {"role": "user", "content": "What is it?\n\n[Attached files: a.png, b.csv]"}
    assert sent[3:] == [{"role": "tool", "tool_call_id": "1", "content": "[file x/p.png]"}, from_json(PLAIN)]


def test_a_model_that_sees_gets_the_images_with_the_message_and_behind_all_results() -> None:
    images = {"a.png": URL, "x/p.png": f"{URL}BB"}
    after = to_json({"role": "user", "content": "And?"})
    sent = [from_json(line) for line in with_files([SYSTEM, ASKED, CALLS, DRAWN, PLAIN, after], images)]
    assert sent[1]["content"] == [
        {"type": "text", "text": "What is it?\n\n[Attached files: a.png, b.csv]"},
        {"type": "image_url", "image_url": {"url": URL}},
    ]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user", "user"]
    assert sent[5]["content"] == [
        {"type": "text", "text": "[Images that the tools above have made: x/p.png]"},
        {"type": "image_url", "image_url": {"url": f"{URL}BB"}},
    ]
    last = [from_json(line) for line in with_files([CALLS, DRAWN], images)]
    assert last[-1]["content"][1]["image_url"]["url"] == f"{URL}BB"


def test_files_that_are_no_list_of_paths_are_left_out() -> None:
    odd = b'{"role":"user","content":"x","files":[1,null,{"a":["b"]}]}'
    assert files_in(odd) == []
    assert from_json(with_files([odd], {})[0]) == {"role": "user", "content": "x"}
