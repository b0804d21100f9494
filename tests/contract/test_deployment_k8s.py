"""The Kubernetes base would be accepted by a cluster and fits the code. Every check is seen to bite."""

import tomllib
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest

from pentad.contracts.streams import SERVICES
from pentad.shared.sandbox.limits import SCRIPTS_AT_ONCE, ScriptLimits
from pentad.shared.settings import Settings
from tests.support.documents.manifest_checks import CHECKS, is_pinned, quantity
from tests.support.documents.manifests import (
    KUSTOMIZATION_FIELDS,
    ROOT,
    Document,
    of_kind,
    pod_spec,
    read_base,
    read_documents,
    title,
)

KUBERNETES = "1.34"
KUSTOMIZATION, DOCUMENTS = read_base()


def _find(documents: list[Document], kind: str, name: str) -> Document:
    (found,) = (d for d in documents if (d["kind"], d["metadata"]["name"]) == (kind, name))
    return found


def _container(documents: list[Document]) -> Document:
    container: Document = pod_spec(_find(documents, "Deployment", "router"))["containers"][0]
    return container


def _egress(documents: list[Document], name: str) -> list[Document]:
    rules: list[Document] = _find(documents, "NetworkPolicy", name)["spec"]["egress"]
    return rules


def _watch(stream: str, group: str) -> Document:
    trigger = {"type": "redis-streams", "metadata": {"stream": stream, "consumerGroup": group}}
    spec = {"scaleTargetRef": {"name": "router"}, "triggers": [trigger]}
    return {"kind": "ScaledObject", "metadata": {"name": "router"}, "spec": spec}


@pytest.mark.parametrize("document", DOCUMENTS, ids=title)
def test_every_document_fits_the_schema_of_kubernetes(document: Document) -> None:
    kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_a_misspelt_field_is_refused() -> None:
    broken = deepcopy(_find(DOCUMENTS, "Deployment", "router"))
    broken["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_each_service_has_its_deployment_its_service_and_its_budget() -> None:
    for kind in ("Deployment", "Service", "PodDisruptionBudget"):
        assert {d["metadata"]["name"] for d in of_kind(DOCUMENTS, kind)} == set(SERVICES), kind


def test_the_kustomization_lists_every_file_and_asks_for_nothing_else() -> None:
    assert set(KUSTOMIZATION) <= KUSTOMIZATION_FIELDS
    files = {path.name for path in (ROOT / "k8s" / "base").glob("*.yaml")} - {"kustomization.yaml"}
    assert sorted(KUSTOMIZATION["resources"]) == sorted(files)
    assert KUSTOMIZATION["namespace"] in {d["metadata"]["name"] for d in of_kind(DOCUMENTS, "Namespace")}


def test_the_image_is_named_once_for_overlays_and_is_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert KUSTOMIZATION["images"] == [{"name": "pentad", "newTag": version}]
    assert _container(DOCUMENTS)["image"] == f"pentad:{version}"


def test_no_secret_is_in_the_repository() -> None:
    assert not of_kind(DOCUMENTS, "Secret")


def test_the_example_of_a_pool_is_a_tool_worker_of_one_queue_and_differs_in_nothing_that_confines_it() -> None:
    (pool,) = read_documents((ROOT / "k8s" / "pools" / "tool-worker-gpu.yaml").read_text())
    kubernetes_validate.validate(pool, KUBERNETES, strict=True)
    base = _find(DOCUMENTS, "Deployment", "tool-worker")
    own, [container] = pod_spec(base), pod_spec(pool)["containers"]
    [other] = own["containers"]
    assert {name: value for name, value in pod_spec(pool).items() if name != "containers"} == {
        name: value for name, value in own.items() if name != "containers"
    }
    varies = {"env", "resources"}
    assert {name: container[name] for name in container.keys() - varies} == {
        name: other[name] for name in other.keys() - varies
    }
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables.keys() - {each["name"] for each in other["env"]} == {"PENTAD_QUEUES", "PENTAD_TOOL_CONCURRENCY"}
    assert Settings(pentad_queues=variables["PENTAD_QUEUES"]).pentad_queues == ("gpu",)
    chosen = pool["spec"]["selector"]["matchLabels"]
    assert chosen == pool["spec"]["template"]["metadata"]["labels"] != base["spec"]["selector"]["matchLabels"]


def test_what_killed_tools_leave_behind_is_reaped() -> None:
    assert pod_spec(_find(DOCUMENTS, "Deployment", "tool-worker"))["shareProcessNamespace"] is True


@pytest.mark.parametrize("name", CHECKS)
def test_the_base_holds(name: str) -> None:
    assert CHECKS[name](DOCUMENTS) == []


BREACHES: list[tuple[str, str, Callable[[list[Document]], Any]]] = [
    ("selectors", "router", lambda d: _find(d, "Service", "router")["spec"]["selector"].update(tier="x")),
    (
        "selectors",
        "router",
        lambda d: _find(d, "Deployment", "router")["spec"]["selector"]["matchLabels"].update(a="b"),
    ),
    (
        "references",
        "ServiceAccount",
        lambda d: pod_spec(_find(d, "Deployment", "router")).update(serviceAccountName="x"),
    ),
    ("references", "ConfigMap x", lambda d: _container(d)["envFrom"][0]["configMapRef"].update(name="x")),
    ("references", "Secret x", lambda d: _container(d)["env"][0]["valueFrom"]["secretKeyRef"].update(name="x")),
    ("references", "PersistentVolumeClaim", lambda d: d.remove(_find(d, "PersistentVolumeClaim", "pentad-records"))),
    ("mounts", "spool", lambda d: _container(d)["volumeMounts"].append({"name": "spool", "mountPath": "/spool"})),
    ("resources", "100x", lambda d: _container(d)["resources"]["requests"].update(cpu="100x")),
    ("resources", "more memory", lambda d: _container(d)["resources"]["requests"].update(memory="1Gi")),
    ("resources", "needs", lambda d: _container(d).pop("resources")),
    ("probes", "startupProbe", lambda d: _container(d).pop("startupProbe")),
    ("probes", "livenessProbe", lambda d: _container(d)["livenessProbe"]["httpGet"].update(path="/readyz")),
    ("security", "readOnly", lambda d: _container(d)["securityContext"].pop("readOnlyRootFilesystem")),
    (
        "security",
        "runAsUser",
        lambda d: pod_spec(_find(d, "Deployment", "router"))["securityContext"].update(runAsUser=0),
    ),
    ("disruption", "router", lambda d: d.remove(_find(d, "PodDisruptionBudget", "router"))),
    ("images", "pinned", lambda d: _container(d).update(image="pentad:latest")),
    ("images", "one image", lambda d: _container(d).update(image="pentad:0.0.9")),
    ("environment", "PENTAD_SHARD ", lambda d: _find(d, "ConfigMap", "pentad-config")["data"].update(PENTAD_SHARD="1")),
    ("environment", "secret", lambda d: _find(d, "ConfigMap", "pentad-config")["data"].update(LLM_API_KEY="k")),
    ("environment", "REDIS_URI", lambda d: _container(d)["env"].append({"name": "REDIS_URI", "value": "x"})),
    ("environment", "key", lambda d: _container(d)["env"][0]["valueFrom"]["secretKeyRef"].update(key="redis")),
    ("ports", "open the port", lambda d: _container(d)["ports"][0].update(containerPort=9109)),
    ("ports", "own port", lambda d: _container(d).update(args=["serve", "archiver"])),
    ("ports", "readinessProbe", lambda d: _container(d)["readinessProbe"]["httpGet"].update(port="web")),
    ("ports", "web", lambda d: _find(d, "Service", "router")["spec"]["ports"][0].update(targetPort="web")),
    ("egress", "router", lambda d: d.remove(_find(d, "NetworkPolicy", "models-egress"))),
    (
        "egress",
        "reaches the ports []",
        lambda d: _find(d, "Deployment", "router")["spec"]["template"]["metadata"].update(labels={}),
    ),
    ("egress", "without ports", lambda d: _egress(d, "redis-egress")[1].pop("ports")),
    (
        "egress",
        "tool-worker",
        lambda d: _egress(d, "redis-egress").append({"ports": [{"protocol": "TCP", "port": 443}]}),
    ),
    ("egress", "169.254", lambda d: _egress(d, "models-egress")[0]["to"][0]["ipBlock"].pop("except")),
    ("streams", "wake:tasks", lambda d: d.append(_watch("pentad:{0}:wake:tasks", "task-runner"))),
    ("streams", "runner", lambda d: d.append(_watch("pentad:{0}:wake:task", "runner"))),
    ("endings", "30 s", lambda d: pod_spec(_find(d, "Deployment", "router")).pop("terminationGracePeriodSeconds")),
    ("endings", "enableServiceLinks", lambda d: pod_spec(_find(d, "Deployment", "router")).pop("enableServiceLinks")),
]


@pytest.mark.parametrize(("name", "word", "breach"), BREACHES, ids=[f"{n}-{w}" for n, w, _ in BREACHES])
def test_a_planted_breach_is_found(name: str, word: str, breach: Callable[[list[Document]], Any]) -> None:
    documents = deepcopy(DOCUMENTS)
    breach(documents)
    assert any(word in complaint for complaint in CHECKS[name](documents)), CHECKS[name](documents)


def test_every_check_has_a_planted_breach() -> None:
    assert {name for name, _, _ in BREACHES} == set(CHECKS)


def test_streams_of_the_registry_may_be_watched() -> None:
    good = [_watch("pentad:{3}:tools:slow", "tool-worker"), _watch("pentad:inbound", "router")]
    assert CHECKS["streams"](good) == []


@pytest.mark.parametrize(
    ("image", "pinned"), [("a/b:1.2", True), ("a:v2.55.1", True), ("a", False), ("a:latest", False)]
)
def test_an_image_is_pinned_by_its_version(image: str, pinned: bool) -> None:
    assert is_pinned(image) is pinned


def test_scripts_that_run_at_once_fit_in_the_memory_and_the_temporary_folder_of_their_pod() -> None:
    spec, limits = pod_spec(_find(DOCUMENTS, "Deployment", "tool-worker")), ScriptLimits()
    (folder,) = (volume["emptyDir"]["sizeLimit"] for volume in spec["volumes"] if volume["name"] == "tmp")
    assert quantity(folder) > SCRIPTS_AT_ONCE * limits.creations * limits.file_bytes
    memory = quantity(spec["containers"][0]["resources"]["limits"]["memory"])
    assert memory > SCRIPTS_AT_ONCE * limits.memory_bytes + quantity("512Mi"), "the worker's own"


def test_quantities_compare_as_numbers() -> None:
    assert quantity("250m") < quantity("1") < quantity("512Mi") < quantity("1Gi") < quantity("2G")
