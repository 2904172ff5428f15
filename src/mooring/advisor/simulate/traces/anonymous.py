"""Anonymize recordings: names, labels and images become consistent pseudonyms.

Only what scheduling reads is kept of a pod. Numbers, versions and Kubernetes' own label domains stay, because
constraints evaluate them. The pseudonyms depend on a secret that is generated for the recording and not stored, so
continuing a recording needs the same one (`--secret`).
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, cast

from mooring.api import codec
from mooring.api.core_v1 import Node, NodeSpec, Pod
from mooring.api.meta_v1 import ObjectMeta

_KUBERNETES = re.compile(r"([a-z0-9.-]+\.)?(kubernetes|k8s)\.io/.*")
_NUMBER = re.compile(r"v?[0-9]+(\.[0-9]+)*")
_OPEN = frozenset({"true", "false", ""})
_POD_SPEC = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priority",
    "preemptionPolicy",
    "overhead",
    "nodeName",
    "resources",
)


class Pseudonyms:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def name(self, text: str, what: str) -> str:
        """Return a pseudonym such as `pod-3f2a9c1b0d4e`."""
        if not text or text == "default":
            return text
        return f"{what}-{blake2b(text.encode(), key=self._secret, digest_size=6).hexdigest()}"

    def pod(self, pod: Pod) -> Pod:
        tree = cast("dict[str, Any]", codec.to_tree(pod))
        spec, meta = tree.get("spec", {}), tree.get("metadata", {})
        kept = {name: self._anonymize(spec[name], name) for name in _POD_SPEC if name in spec}
        for group in ("containers", "initContainers"):
            kept[group] = [self._container(each, index) for index, each in enumerate(spec.get(group, []))]
        kept["schedulerName"] = spec.get("schedulerName", "")
        owners = [
            {**each, "name": self.name(each["name"], "owner"), "uid": self.name(each.get("uid", ""), "uid")}
            for each in meta.get("ownerReferences", [])
        ]
        metadata = {
            "name": self.name(meta["name"], "pod"),
            "namespace": self.name(meta["namespace"], "namespace"),
            "labels": self._labels(meta.get("labels", {})),
            "ownerReferences": owners,
        }
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": kept, "status": {"phase": "Pending"}}
        return codec.decode_tree(whole, Pod).object

    def node(self, node: Node) -> Node:
        tree = cast("dict[str, Any]", codec.to_tree(node.spec))
        spec = {
            "unschedulable": tree.get("unschedulable", False),
            "taints": self._anonymize(tree.get("taints", []), ""),
        }
        labels = self._labels(node.metadata.labels)
        name = self.name(node.metadata.name, "node")
        if "kubernetes.io/hostname" in labels:
            labels["kubernetes.io/hostname"] = self._word(node.metadata.labels["kubernetes.io/hostname"])
        return Node(
            api_version="v1",
            kind="Node",
            metadata=ObjectMeta(name=name, labels=labels),
            spec=codec.decode_tree(spec, NodeSpec).object,
            status=node.status,
        )

    def _container(self, tree: Mapping[str, Any], index: int) -> dict[str, Any]:
        kept = {name: tree[name] for name in ("resources", "restartPolicy") if name in tree}
        ports = [{key: value for key, value in port.items() if key != "name"} for port in tree.get("ports", [])]
        return kept | {"name": f"c{index}", "image": self._word(tree.get("image", "")), "ports": ports}

    def _anonymize(self, tree: Any, key: str) -> Any:
        if isinstance(tree, dict):
            if key in ("nodeSelector", "matchLabels"):
                return self._labels(tree)
            return {name: self._anonymize(value, name) for name, value in tree.items()}
        if isinstance(tree, list):
            return [self._anonymize(each, key) for each in tree]
        if not isinstance(tree, str):
            return tree
        if key in ("key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys"):
            return self._key(tree)
        if key == "nodeName":
            return self.name(tree, "node")
        if key == "namespaces":
            return self.name(tree, "namespace")
        return self._word(tree) if key in ("value", "values") else tree

    def _labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        return {self._key(key): self._word(value) for key, value in labels.items()}

    def _key(self, key: str) -> str:
        return key if _KUBERNETES.fullmatch(key) else self.name(key, "key")

    def _word(self, text: str) -> str:
        return text if text in _OPEN or _NUMBER.fullmatch(text) else self.name(text, "word")
