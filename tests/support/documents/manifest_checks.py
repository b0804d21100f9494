"""Checks of mistakes in manifests that the Kubernetes schemas accept, and that a cluster or its operator does not.

Each check takes the documents of a base and returns a complaint for each breach.
"""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal

from pentad.shared.settings import Settings
from tests.support.documents.manifest_links import (
    egress,
    mounts,
    ports,
    references,
    selector_of,
    selectors,
    selects,
    streams,
)
from tests.support.documents.manifests import Document, containers, of_kind, pod_labels, title

Check = Callable[[list[Document]], list[str]]

HAND_BACK_S = 30
"""A service that is told to stop has handed back its work after this long; Kubernetes kills it later than that."""
SETTINGS = {name.upper() for name in Settings.model_fields}
_UNITS: dict[str, Decimal] = {"": Decimal(1), "m": Decimal("0.001"), "k": Decimal(10**3)}
_UNITS |= {prefix: Decimal(10 ** (3 * power)) for power, prefix in enumerate("MGT", start=2)}
_UNITS |= {f"{prefix}i": Decimal(2 ** (10 * power)) for power, prefix in enumerate("KMGT", start=1)}
_PINNED = re.compile(r"[a-z0-9./_-]+(?:(:v?\d[\w.-]*)(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})")


def is_pinned(image: str) -> bool:
    """Whether an image name says which version it is."""
    return _PINNED.fullmatch(image) is not None


def quantity(text: str) -> Decimal:
    """A Kubernetes quantity as a number. Raises ``ValueError`` for what is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", str(text))
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(found[1]) * _UNITS[found[2]]


def resources(documents: list[Document]) -> list[str]:
    """Processor time and memory are requested, memory is limited, and no request is over its limit."""
    return [f"{name}: {complaint}" for name, _, c in containers(documents) for complaint in _resources_of(c)]


def _resources_of(container: Document) -> Iterator[str]:
    asked = container.get("resources", {})
    requests, limits = asked.get("requests", {}), asked.get("limits", {})
    if not {"cpu", "memory"} <= requests.keys() or "memory" not in limits:
        yield "needs requests of cpu and memory and a limit of memory"
    try:
        numbers = {part: {k: quantity(v) for k, v in asked.get(part, {}).items()} for part in ("requests", "limits")}
    except ValueError as error:
        yield str(error)
        return
    for key, most in numbers["limits"].items():
        if numbers["requests"].get(key, 0) > most:
            yield f"requests more {key} than its limit"


def probes(documents: list[Document]) -> list[str]:
    """Three probes each; only readiness asks for the stores, or an outage of Redis would restart everything."""
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    return [
        f"{name}: {probe} must ask {path}"
        for name, _, container in containers(documents)
        for probe, path in paths.items()
        if container.get(probe, {}).get("httpGet", {}).get("path") != path
    ]


def security(documents: list[Document]) -> list[str]:
    """The restricted profile, a read-only root, no token of the cluster."""
    return [f"{n}: {complaint}" for n, spec, c in containers(documents) for complaint in _security_of(spec, c)]


def _security_of(spec: Document, container: Document) -> Iterator[str]:
    pod, own = spec.get("securityContext", {}), container.get("securityContext", {})
    demands = {
        "runAsNonRoot": pod.get("runAsNonRoot") is True,
        "runAsUser above 0": pod.get("runAsUser", 0) > 0,
        "seccompProfile RuntimeDefault": pod.get("seccompProfile") == {"type": "RuntimeDefault"},
        "allowPrivilegeEscalation: false": own.get("allowPrivilegeEscalation") is False,
        "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True,
        "capabilities dropped": own.get("capabilities") == {"drop": ["ALL"]},
        "automountServiceAccountToken: false": spec.get("automountServiceAccountToken") is False,
    }
    return (f"needs {demand}" for demand, met in demands.items() if not met)


def disruption(documents: list[Document]) -> list[str]:
    """Each Deployment has a budget for evictions that leaves one pod at work and lets the other go."""
    budgets = [selector_of(budget) for budget in of_kind(documents, "PodDisruptionBudget")]
    workloads = of_kind(documents, "Deployment")
    without = [w for w in workloads if not any(selects(budget, pod_labels(w)) for budget in budgets)]
    return [f"{title(workload)}: has no PodDisruptionBudget" for workload in without]


def images(documents: list[Document]) -> list[str]:
    """Every image is pinned, and all services run the same."""
    used = {container["image"] for _, _, container in containers(documents)}
    wrong = [f"{image} is not pinned" for image in sorted(used) if not is_pinned(image)]
    return wrong + ([f"one image was expected: {sorted(used)}"] if len(used) > 1 else [])


def environment(documents: list[Document]) -> list[str]:
    """Every variable is one of the settings, and what is secret comes from the Secret's key of its name."""
    configured = [
        (title(c), {"name": k, "value": v}) for c in of_kind(documents, "ConfigMap") for k, v in c["data"].items()
    ]
    given = [(name, variable) for name, _, container in containers(documents) for variable in container.get("env", [])]
    return [f"{who}: {complaint}" for who, variable in configured + given for complaint in _variable(variable)]


def _variable(variable: Document) -> Iterator[str]:
    name = variable["name"]
    if name not in SETTINGS:
        yield f"{name} is not a setting"
    elif "value" in variable and is_secret(name):
        yield f"{name} is a secret: take it from one"
    elif (reference := variable.get("valueFrom", {}).get("secretKeyRef")) and reference["key"] != name:
        yield f"{name} takes the secret's key {reference['key']}"


def is_secret(name: str) -> bool:
    """Whether a setting must not be written down; an address of Redis may hold its password."""
    return name == "REDIS_URL" or "SecretStr" in str(Settings.model_fields[name.lower()].annotation)


def endings(documents: list[Document]) -> list[str]:
    """A pod is not killed while it hands back its work; names of services do not turn into variables."""
    wrong = []
    for name, spec, _ in containers(documents):
        if spec.get("terminationGracePeriodSeconds", 30) <= HAND_BACK_S:
            wrong.append(f"{name}: must have more than {HAND_BACK_S} s to stop")
        if spec.get("enableServiceLinks", True):
            wrong.append(f"{name}: enableServiceLinks puts variables into it that nobody wrote")
    return wrong


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        selectors,
        references,
        mounts,
        resources,
        probes,
        security,
        disruption,
        images,
        environment,
        ports,
        egress,
        streams,
        endings,
    )
}
