"""Ids of nodes and edges: made from whose they are and what they say, so that the same has the same in every run."""

import json
from hashlib import sha256

from pentad.shared.graph.knowledge import EdgeType, NodeKind
from pentad.shared.graph.merging import normal_text
from pentad.shared.owners import Owner


def node_id(owner: Owner, kind: NodeKind, text: str) -> str:
    """A UUID (version 8 of RFC 9562). However a text is written (`normal_text`), it is the same node's."""
    return _uuid("node", owner.tenant, owner.holder, kind.value, normal_text(text))


def edge_id(owner: Owner, source: str, target: str, kind: EdgeType) -> str:
    """Such a one, too. It is kept nowhere: whoever shows an edge makes it."""
    return _uuid("edge", owner.tenant, owner.holder, source, target, kind.value)


def _uuid(*of: str | None) -> str:
    said = json.dumps(of)
    digest = sha256(said.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
