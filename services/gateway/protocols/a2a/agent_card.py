"""The agent card: what A2A clients read before they have a key. Pure."""

from collections.abc import Mapping

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from pentad.contracts.graphs import GraphSpec, Runnable

_MAX_SKILLS = 500
"""Skills of a card: of more than these the first by name."""
_KINDS = ["text/plain", "application/json"]
_SCHEME = "bearer"
_ABOUT = "An agent backend: durable tasks with tools, questions to people, approvals and long-term memory."


def card_of(runnables: Mapping[str, Runnable], address: str, version: str, *, needs_key: bool) -> AgentCard:
    """Return the card. ``runnables``: instructions and graphs by name. ``needs_key``: the gateway is not open."""
    card = AgentCard(
        name="Pentad",
        description=_ABOUT,
        version=version,
        supported_interfaces=[
            AgentInterface(url=f"{address}/a2a", protocol_binding="JSONRPC", protocol_version="1.0"),
            AgentInterface(url=f"{address}/a2a/rest", protocol_binding="HTTP+JSON", protocol_version="1.0"),
            AgentInterface(url=f"{address}/a2a", protocol_binding="JSONRPC", protocol_version="0.3"),
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=False),
        default_input_modes=[*_KINDS, "*/*"],
        default_output_modes=_KINDS,
        skills=[_skill(name, runnables[name]) for name in sorted(runnables)[:_MAX_SKILLS]],
    )
    if needs_key:
        scheme = HTTPAuthSecurityScheme(scheme="bearer", description="an API key of the gateway, or a token of it")
        card.security_schemes[_SCHEME].CopyFrom(SecurityScheme(http_auth_security_scheme=scheme))
        card.security_requirements.append(SecurityRequirement(schemes={_SCHEME: StringList()}))
    return card


def _skill(name: str, runnable: Runnable) -> AgentSkill:
    kind = "graph" if isinstance(runnable, GraphSpec) else "instruction"
    about = runnable.description or f"Runs the {kind} {name}."
    return AgentSkill(id=name, name=name, description=about, tags=[kind])
