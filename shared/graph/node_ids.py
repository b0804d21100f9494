"""Ids of nodes: made from whose they are and what they say, so that the same content has the same one in every run."""

import json
from hashlib import sha256

from pentad.shared.graph.knowledge import NodeKind
from pentad.shared.graph.merging import normal_text
from pentad.shared.owners import Owner


def node_id(owner: Owner, kind: NodeKind, text: str) -> str:
    """A UUID (version 8 of RFC 9562). However a text is written (`normal_text`), it is the same node's."""
    said = json.dumps(["node", owner.tenant, owner.user, kind.value, normal_text(text)])
    digest = sha256(said.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
