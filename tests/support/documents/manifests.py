"""Reads the deployment files strictly, and finds one's way in Kubernetes documents."""

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]
ROOT = Path(__file__).parents[3]
BASE = ROOT / "k8s" / "base"
KUSTOMIZATION_FIELDS = {"apiVersion", "kind", "namespace", "resources", "images"}
"""Fields of a kustomization that this reader understands; the resources need no other."""


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is written twice, where YAML's usual reader keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        written = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        if twice := {key for key in written if written.count(key) > 1}:
            raise yaml.constructor.ConstructorError(None, None, f"written twice: {sorted(twice)}", node.start_mark)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """What is written replaces what is merged; left in twice, it would look like a mistake."""
        super().flatten_mapping(node)
        merged = {key.value: (key, value) for key, value in node.value}
        node.value = list(merged.values())


def read_documents(text: str) -> list[Document]:
    """The documents of a YAML text. Raises ``yaml.YAMLError`` for what is not YAML or says a key twice."""
    return [document for document in yaml.load_all(text, _StrictLoader) if document is not None]


def read_base(folder: Path = BASE) -> tuple[Document, list[Document]]:
    """A kustomization and every document of its files. Raises ``FileNotFoundError`` for a file that is not there."""
    (kustomization,) = read_documents((folder / "kustomization.yaml").read_text())
    return kustomization, [
        d for name in kustomization["resources"] for d in read_documents((folder / name).read_text())
    ]


def of_kind(documents: list[Document], *kinds: str) -> list[Document]:
    return [document for document in documents if document["kind"] in kinds]


def title(document: Document) -> str:
    """Return the name of a document for complaints."""
    return f"{document['kind']} {document['metadata']['name']}"


def pod_spec(workload: Document) -> Document:
    spec: Document = workload["spec"]["template"]["spec"]
    return spec


def pod_labels(workload: Document) -> Mapping[str, str]:
    labels: Mapping[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return labels


def containers(documents: list[Document]) -> Iterator[tuple[str, Document, Document]]:
    """Each container of each Deployment: what to call it, its pod's spec, itself."""
    for workload in of_kind(documents, "Deployment"):
        for container in pod_spec(workload)["containers"]:
            yield f"{title(workload)}/{container['name']}", pod_spec(workload), container
