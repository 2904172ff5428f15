"""A strict stand-in for the kubelet of a release: it admits pods by stock rules on exactly the bytes it is served.

    kubelet = StockKubelet(api, "node-1", release="1.36")
    assert await kubelet.admit() == {"web": "", "misplaced": "NodeAffinity"}

It calls as its node's user, lists the pods that are bound to the node, admits those that it has not seen (required node
affinity, NoExecute taints, the node affinity of their volumes), and writes their status as a strategic merge patch, as
kubelets do. A word that stock Kubernetes does not know fails the test: a kubelet would drop it and decide otherwise.
"""

from typing import Any

import stock_rules
from api_caller import STRATEGIC, ApiCaller

RELEASES = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")


class StockKubelet:
    """Stand in for the kubelet of one node. It remembers the pods that it has admitted; a new instance is a restart."""

    def __init__(self, api: ApiCaller, name: str, release: str = "1.37", *, comparisons: bool = False) -> None:
        assert release in RELEASES
        assert not comparisons or release >= "1.35", "the gate is not older"
        self._api = api.as_node(name)
        self._name = name
        self._comparisons = comparisons
        self._seen: set[str] = set()

    async def admit(self) -> dict[str, str]:
        """Admit the new pods; return by name the reason of each refusal, empty for pods that run."""
        found = await self._api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={self._name}")
        assert found.code == 200, found.message
        verdicts: dict[str, str] = {}
        for pod in found.body["items"]:
            metadata = pod["metadata"]
            if metadata["uid"] not in self._seen:
                self._seen.add(metadata["uid"])
                verdicts[metadata["name"]] = await self._admission_error(pod)
                await self._report(pod, verdicts[metadata["name"]])
        return verdicts

    async def _admission_error(self, pod: dict[str, Any]) -> str:
        node = (await self._api.get(f"/api/v1/nodes/{self._name}")).body
        labels, spec = node["metadata"].get("labels", {}), pod["spec"]
        if not stock_rules.meets_required(spec, labels, self._name):
            return "NodeAffinity"
        taints = node["spec"].get("taints", [])
        if stock_rules.untolerated(taints, spec.get("tolerations", []), "NoExecute", self._comparisons):
            return "TaintToleration"
        for volume in spec.get("volumes", []):
            if "persistentVolumeClaim" in volume and not await self._can_mount(pod, volume, labels):
                return "FailedMount"
        return ""

    async def _can_mount(self, pod: dict[str, Any], volume: dict[str, Any], labels: dict[str, str]) -> bool:
        """Whether the volume behind a claim may be used here; kubelets ask before they mount it."""
        namespace, claim = pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"]
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
        name = (await self._api.get(path)).body["spec"]["volumeName"]
        affinity = (await self._api.get(f"/api/v1/persistentvolumes/{name}")).body["spec"].get("nodeAffinity", {})
        return "required" not in affinity or stock_rules.meets_selector(affinity["required"], labels, self._name)

    async def _report(self, pod: dict[str, Any], reason: str) -> None:
        metadata = pod["metadata"]
        status = {"phase": "Failed", "reason": reason} if reason else {"phase": "Running", "podIP": "10.0.0.1"}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        answer = await self._api.patch(path, patch, STRATEGIC)
        assert answer.code == 200, answer.message
