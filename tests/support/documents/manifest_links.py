"""Checks that what Kubernetes documents say of one another fits: selectors, names, volumes, ports, streams.

Each takes the documents of a base and returns a complaint for each breach.
"""

import re
from collections.abc import Iterator, Mapping

from pentad.contracts.streams import SERVICES, STREAMS
from tests.support.documents.manifests import Document, containers, of_kind, pod_labels, pod_spec, title

SECRETS = {"pentad-secrets", "pentad-tool-worker"}
"""Made by the operator, not in the repository."""
PORTS: dict[str, int] = dict(zip(SERVICES, (8080, 9101, 9102, 9103, 9104, 9105), strict=True))
_VOLUME_SOURCES = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
)
_ENV_SOURCES = {
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "secretRef": "Secret",
    "secretKeyRef": "Secret",
}


def selectors(documents: list[Document]) -> list[str]:
    """Every selector finds the pods of some Deployment, its own first of all."""
    workloads = of_kind(documents, "Deployment")
    pods = [pod_labels(workload) for workload in workloads]
    wrong = [w for w in workloads if not selects(w["spec"]["selector"]["matchLabels"], pod_labels(w))]
    others = of_kind(documents, "Service", "PodDisruptionBudget", "NetworkPolicy")
    wrong += [o for o in others if not any(selects(selector_of(o), labels) for labels in pods)]
    return [f"{title(document)}: its selector finds no pod" for document in wrong]


def selector_of(document: Document) -> dict[str, str]:
    """The labels that a Service, a budget or a policy asks for."""
    spec = document["spec"]
    selector = spec.get("podSelector") or spec["selector"]
    labels: dict[str, str] = selector.get("matchLabels", selector)
    return labels


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return selector.items() <= labels.items()


def references(documents: list[Document]) -> list[str]:
    """Every name that a workload or a scaler points at is there, or is a Secret that the operator makes."""
    names = {(d["kind"], d["metadata"]["name"]) for d in documents} | {("Secret", name) for name in SECRETS}
    wanted = [(title(d), reference) for d in of_kind(documents, "Deployment") for reference in _pod_references(d)]
    for scaler in of_kind(documents, "ScaledObject", "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        wanted.append((title(scaler), (target.get("kind", "Deployment"), target["name"])))
    return [f"{who}: there is no {kind} {name}" for who, (kind, name) in wanted if (kind, name) not in names]


def _pod_references(workload: Document) -> Iterator[tuple[str, str]]:
    spec = pod_spec(workload)
    yield "ServiceAccount", spec["serviceAccountName"]
    for volume in spec.get("volumes", []):
        for field, kind, key in _VOLUME_SOURCES:
            if field in volume:
                yield kind, volume[field][key]
    for container in spec["containers"]:
        for source in container.get("envFrom", []) + [e.get("valueFrom", {}) for e in container.get("env", [])]:
            for field, kind in _ENV_SOURCES.items():
                if field in source:
                    yield kind, source[field]["name"]


def mounts(documents: list[Document]) -> list[str]:
    """Every mount has its volume."""
    return [
        f"{name}: mounts {mount['name']}, which is no volume of the pod"
        for name, spec, container in containers(documents)
        for mount in container.get("volumeMounts", [])
        if mount["name"] not in {volume["name"] for volume in spec.get("volumes", [])}
    ]


def ports(documents: list[Document]) -> list[str]:
    """Each service listens where its port, its probes and its Service say."""
    wrong = [f"{n}: {complaint}" for n, _, container in containers(documents) for complaint in _ports_of(container)]
    for service in of_kind(documents, "Service"):
        offered = [
            p
            for w in of_kind(documents, "Deployment")
            if selects(selector_of(service), pod_labels(w))
            for p in _open(w)
        ]
        wrong += [
            f"{title(service)}: no pod offers {port['targetPort']}"
            for port in service["spec"]["ports"]
            if (port["targetPort"], port["port"]) not in offered
        ]
    return wrong


def _open(workload: Document) -> list[tuple[str, int]]:
    return [(p["name"], p["containerPort"]) for c in pod_spec(workload)["containers"] for p in c["ports"]]


def _ports_of(container: Document) -> Iterator[str]:
    name, port = container["name"], PORTS.get(container["name"])
    if container.get("args") != ["serve", name, "--host", "0.0.0.0", "--port", str(port)]:
        yield "must serve its own name on its own port"
    open_ports = {p["name"]: p["containerPort"] for p in container.get("ports", [])}
    if list(open_ports.values()) != [port]:
        yield f"must open the port {port}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if container.get(probe, {}).get("httpGet", {}).get("port") not in open_ports:
            yield f"{probe} asks a port that is not open"


REACHED: Mapping[str, frozenset[int]] = {
    "QDRANT_API_KEY": frozenset({6333}),
    "NEO4J_PASSWORD": frozenset({7687}),
    "LLM_API_KEY": frozenset({443}),
    "EMBED_API_KEY": frozenset({443}),
}
"""Who is given a secret has to reach the servers that it is for, at these ports; nobody else does."""
_BY_ALL = frozenset({53, 6379, 6380})
"""Names and Redis, with TLS too."""
_LINK_LOCAL = "169.254.0.0/16"


def egress(documents: list[Document]) -> list[str]:
    """Each pod connects to names, Redis and what it has secrets of, and not to what a cloud tells its machines."""
    policies = [p for p in of_kind(documents, "NetworkPolicy") if "Egress" in p["spec"]["policyTypes"]]
    wrong = [f"{title(p)}: {complaint}" for p in policies for r in p["spec"]["egress"] for complaint in _open_rule(r)]
    for workload in of_kind(documents, "Deployment"):
        own = [p["spec"] for p in policies if _is_of(p["spec"]["podSelector"], pod_labels(workload))]
        reached = {port["port"] for spec in own for rule in spec["egress"] for port in rule.get("ports", [])}
        given = [variable["name"] for c in pod_spec(workload)["containers"] for variable in c.get("env", [])]
        needed = _BY_ALL.union(*(REACHED.get(name, frozenset()) for name in given))
        if reached != needed:
            wrong.append(f"{title(workload)}: reaches the ports {sorted(reached)}, and needs {sorted(needed)}")
    return wrong


def _open_rule(rule: Document) -> Iterator[str]:
    if not rule.get("ports"):
        yield "a rule without ports allows all of them"
    blocks = [peer["ipBlock"] for peer in rule.get("to", []) if "ipBlock" in peer]
    if any(block["cidr"] == "0.0.0.0/0" and _LINK_LOCAL not in block.get("except", ()) for block in blocks):
        yield f"reaches {_LINK_LOCAL}, where a cloud tells its machines' keys"


def _is_of(selector: Document, labels: Mapping[str, str]) -> bool:
    chosen = [labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", [])]
    return selects(selector.get("matchLabels", {}), labels) and all(chosen)


def streams(documents: list[Document]) -> list[str]:
    """Every stream and group that a scaler watches is in the registry."""
    wrong = []
    for scaler in of_kind(documents, "ScaledObject"):
        for trigger in scaler["spec"]["triggers"]:
            stream, group = trigger["metadata"].get("stream"), trigger["metadata"].get("consumerGroup")
            if not any(_is_key_of(s.template, str(stream)) and s.group == group for s in STREAMS.values()):
                wrong.append(f"{title(scaler)}: no stream {stream} with a group {group}")
    return wrong


def _is_key_of(template: str, key: str) -> bool:
    pattern = re.escape(template).replace(r"\{shard\}", r"\{\d+\}")
    pattern = re.sub(r"\\\{[a-z]+\\\}", "[^:]+", pattern)
    return re.fullmatch(pattern, key) is not None
