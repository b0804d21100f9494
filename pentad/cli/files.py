"""``pentad files``: the files of a session."""

import argparse
import asyncio
import sys
from pathlib import Path

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import ago, harmless
from pentad.client.files import SessionFiles
from pentad.errors import ClientError
from pentad.shared.settings import Settings


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run one of the actions; without one, list."""
    return run_async(_run(args, settings))


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    async with agent_for(args, settings) as agent:
        files = agent.files(args.session)
        if args.action == "get":
            return await _get(files, args)
        if args.action == "put":
            return await _put(files, args)
        if args.action == "rm":
            await files.remove(args.path)
            return 0
        return await _list(files, args)


async def _list(files: SessionFiles, args: argparse.Namespace) -> int:
    out, _ = streams()
    found = [file async for file in files.list(args.glob)]
    if args.json:
        out.writelines(file.model_dump_json() + "\n" for file in found)
    elif not found:
        out.write("there are no such files\n")
    else:
        width = max(len(f"{file.size:,}") for file in found)
        out.writelines(
            f"{file.size:>{width},}  {ago(file.modified_at)}  {harmless(file.media_type)}  {harmless(file.path)}\n"
            for file in found
        )
    return 0


async def _get(files: SessionFiles, args: argparse.Namespace) -> int:
    """Write a file to the standard output, or whole into a file of this machine."""
    if args.out is None:
        async for block in files.blocks(args.path):
            await asyncio.to_thread(_write_out, block)
        return 0
    target = Path(args.out)
    beside = target.with_name(f"{target.name}.part")
    try:
        with await asyncio.to_thread(beside.open, "wb") as file:
            async for block in files.blocks(args.path):
                await asyncio.to_thread(file.write, block)
        await asyncio.to_thread(beside.replace, target)
    except OSError as error:
        raise ClientError(f"{target} cannot be written: {error.strerror or error}") from None
    finally:
        await asyncio.to_thread(lambda: beside.unlink(missing_ok=True))
    return 0


def _write_out(block: bytes) -> None:
    sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


async def _put(files: SessionFiles, args: argparse.Namespace) -> int:
    source = Path(args.file)
    try:
        put = await files.put(args.path or source.name, source)
    except OSError as error:
        raise ClientError(f"{source} cannot be read: {error.strerror or error}") from None
    out, _ = streams()
    out.write(put.model_dump_json() + "\n" if args.json else f"{harmless(put.path)}: {put.size:,} bytes\n")
    return 0
