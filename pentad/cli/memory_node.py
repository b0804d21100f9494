"""``pentad memory show ID``: something known, what it rests on, and what lies around it."""

import argparse
import json

from pentad.cli.gateway import speaker_for, streams
from pentad.cli.render import Style, ago, harmless, style_for
from pentad.contracts.memories import KnownEdge, KnownNode, Neighbourhood
from pentad.shared.settings import Settings


async def show(args: argparse.Namespace, settings: Settings) -> int:
    """Print a node and its neighbourhood."""
    out, _ = streams()
    async with speaker_for(args, settings) as agent:
        node = await agent.inspection.memory_node(args.id, session_id=args.session)
        around = await agent.inspection.memory_neighbours(
            args.id, depth=args.depth, limit=args.limit, strategy=args.strategy, session_id=args.session
        )
    if args.json:
        told = node.model_dump(mode="json") | {"neighbourhood": around.model_dump(mode="json")}
        out.write(json.dumps(told, ensure_ascii=False) + "\n")
    else:
        style = style_for(out, settings)
        out.write("\n".join([*_node(node, style), *_around(node, around, style)]) + "\n")
    return 0


def _node(node: KnownNode, style: Style) -> list[str]:
    """Return a node as lines: its kind and owner, its text, then the anchors that support it, to be copied."""
    whose = [harmless(node.user_id)] if node.user_id else []
    times = [f"true until {node.true_until}"] if node.true_until else []
    about = [node.kind, *whose, f"learned {ago(node.learned_at)} ago", *times, f"rests on {node.supported_by}"]
    about += ["added by hand"] if node.source is not None and node.source.by_hand else []
    anchors = [style.dim(f"  {each.anchor}") for each in node.supports]
    kept = json.dumps(node.metadata, ensure_ascii=False)
    metadata = [style.dim(f"  {harmless(kept)}")] if node.metadata else []
    lines = (f"  {line}" for line in harmless(node.text).splitlines())
    return [style.dim(" · ".join(about)), *lines, *metadata, *anchors]


def _around(node: KnownNode, around: Neighbourhood, style: Style) -> list[str]:
    """A line for each edge of the neighbourhood, with the words of its ends."""
    words = {each.id: harmless(" ".join(each.text.split())) for each in around.nodes}
    lines = [_edge(edge, words, style) for edge in around.edges]
    others = [each for each in around.nodes if each.id != node.id]
    return [*lines, *(style.dim(f"  {each.id}  {each.kind}  {words[each.id][:60]}") for each in others)]


def _edge(edge: KnownEdge, words: dict[str, str], style: Style) -> str:
    source, target = words[edge.source][:60], words[edge.target][:60]
    return f"{style.bold(f'{edge.weight:.2f}')}  {source} {style.dim(edge.type)} {target}"
