"""The files of a session in a running system: between its user, its model and its tools, until it is erased."""

import json
import os
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.processes.up import PENTAD, ROOT, Up
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance


def reader_and_writer(asked: dict[str, Any]) -> Reply:
    """A model that reads a file and writes another."""
    last = asked["messages"][-1]
    results = [m for m in asked["messages"] if m["role"] == "tool"]
    if last["role"] == "user":
        return call(("file_read", {"path": "notes/tea.md"}))
    if len(results) == 1:
        return call(("file_write", {"path": "out/summary.txt", "content": f"It says: {results[0]['content']}"}))
    return say("written")


async def test_a_model_reads_what_the_user_put_and_writes_what_the_user_gets(tmp_path: Path) -> None:
    async with ScriptedModel(reader_and_writer) as model:
        with Up(tmp_path / "up", {"LLM_BASE_URL": model.base_url}) as up:
            async with pentad.connect(await up.ready()) as agent:
                alice = agent.session("alice")
                put = await alice.files().put("notes/tea.md", b"green\nblack\n")
                assert (put.path, put.size, put.media_type) == ("notes/tea.md", 12, "text/markdown")
                assert await alice.ask("Summarise my notes.") == "written"
                told = (await alice.files().get("out/summary.txt")).decode()
                assert told == "It says: green\nblack\n[Lines 1 to 2 of 2 (12 bytes); this is the end.]"
                assert [file.path async for file in agent.files("bob").list()] == []
                folder = next((up.data / "files" / "default").iterdir())
                await agent.management.delete_session("alice")
                await wait_until("the files to be erased", lambda: not folder.exists())
                assert [file.path async for file in alice.files().list()] == []


def run(up: Up, cwd: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PENTAD_DATA_DIR": str(up.data), "PYTHONPATH": str(ROOT)}
    command = [str(PENTAD), "files", "alice", *args]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, timeout=PATIENCE_S, check=False)


async def test_the_command_lists_puts_gets_and_removes(tmp_path: Path) -> None:
    (tmp_path / "tea.bin").write_bytes(bytes(range(256)) * 40_000)
    with Up(tmp_path / "up") as up:
        await up.ready()
        assert run(up, tmp_path).stdout == b"there are no such files\n"
        assert run(up, tmp_path, "put", "tea.bin", "a/b.bin").stdout == b"a/b.bin: 10,240,000 bytes\n"
        assert run(up, tmp_path, "put", "tea.bin").stdout == b"tea.bin: 10,240,000 bytes\n"
        listed = run(up, tmp_path, "--glob", "a/*").stdout.decode()
        assert "a/b.bin" in listed
        assert "tea.bin" not in listed
        assert run(up, tmp_path, "get", "a/b.bin").stdout == (tmp_path / "tea.bin").read_bytes()
        assert run(up, tmp_path, "get", "a/b.bin", "--out", "copy").returncode == 0
        assert (tmp_path / "copy").read_bytes() == (tmp_path / "tea.bin").read_bytes()
        assert run(up, tmp_path, "rm", "a/b.bin").returncode == 0
        gone = run(up, tmp_path, "get", "a/b.bin", "--out", "none")
        assert (gone.returncode, b"there is no file 'a/b.bin'" in gone.stderr) == (1, True)
        assert not (tmp_path / "none").exists()
        assert run(up, tmp_path, "put", "missing").returncode == 1


async def test_the_blocking_face_has_the_same_files(tmp_path: Path) -> None:
    with Up(tmp_path / "up") as up, pentad.connect_sync(await up.ready()) as agent:
        files = agent.session("alice").files()
        tag = files.put("a.txt", b"one", new=True).etag
        with pytest.raises(pentad.Refused, match="already"):
            files.put("a.txt", b"two", new=True)
        files.put("a.txt", b"two", if_match=tag)
        assert files.get("a.txt", 1, 3) == b"wo"
        assert files.get("a.txt") == b"two"
        assert [file.path for file in files.list()] == ["a.txt"]
        files.put("empty", b"")
        assert files.get("empty") == b""
        files.remove("a.txt")
        with pytest.raises(pentad.NotFound):
            files.get("a.txt")
        with pytest.raises(pentad.Refused, match="no path of a file"):
            files.get("../../tasks")


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
PNG_URL = f"data:image/png;base64,{b64encode(PNG).decode()}"
DIGEST = f"sha256:{sha256(PNG).hexdigest()}"


@pentad.tool(effect="pure")
def plot(count: int) -> pentad.Artifact:
    """Draws a curve."""
    return pentad.Artifact(PNG, name="curve.png")


def artist(asked: dict[str, Any]) -> Reply:
    """A model that draws, and then answers."""
    return say("drawn") if any(m["role"] == "tool" for m in asked["messages"]) else call(("plot", {"count": 3}))


@pytest.mark.parametrize("vision", [True, False])
async def test_images_reach_a_model_that_sees_and_others_get_their_paths(tmp_path: Path, vision: bool) -> None:
    async with ScriptedModel(artist) as model:
        entry = {"id": "eyes", "endpoint": model.base_url, "model": "m", "vision": vision, "default": True}
        async with pentad.start(tmp_path, models=[entry], tools=[plot]) as agent:
            alice = agent.session("alice")
            await alice.files().put("photo.png", PNG)
            await alice.files().put("notes.csv", b"a,b")
            events = [e async for e in alice.send("Draw like this.", files=["photo.png", "notes.csv"])]
            (result,) = [e for e in events if isinstance(e, pentad.ToolResultEvent)]
            path = f"artifacts/{result.tool_call_id}/curve.png"
            assert result.result == f"[file {path}: image/png, {len(PNG):,} bytes]"
            assert result.artifacts is not None
            (kept,) = result.artifacts
            assert (kept.path, kept.media_type, kept.size, kept.digest) == (path, "image/png", len(PNG), DIGEST)
            assert await alice.files().get(path) == PNG
            sent = model.chats[-1]["messages"]
            line = "Draw like this.\n\n[Attached files: photo.png, notes.csv]"
            image = {"type": "image_url", "image_url": {"url": PNG_URL}}
            if vision:
                assert sent[1]["content"] == [{"type": "text", "text": line}, image]
                assert (sent[3]["role"], sent[4]["role"]) == ("tool", "user")
                assert sent[4]["content"][1] == image
            else:
                assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool"]
                assert sent[1]["content"] == line
                assert "base64" not in json.dumps(sent)
            task = result.task_id
            assert task is not None
            for step in (1, 2):
                prompt = await agent.inspection.prompt(task, step)
                assert prompt.proved
                shown = json.dumps(prompt.messages)
                assert "base64" not in shown
                assert (DIGEST in shown) is vision
            said = (await agent.inspection.transcript(task)).messages
            assert "base64" not in json.dumps(said, default=str)
            assert said[0]["content"] == "Draw like this."
