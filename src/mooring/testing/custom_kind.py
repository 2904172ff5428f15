"""Objects of a custom kind as plain dicts, as `with mooring.crd(...)` returns them.

    with mooring.crd(DEFINITION) as crontabs:
        crontabs.create("nightly", {"cronSpec": "0 3 * * *"})
        crontabs.wait_until("nightly", lambda tab: tab.get("status", {}).get("ready"))

Read next: ``control_plane.py``.
"""

import json
from builtins import list as list_of  # the class has a method of that name
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mooring.api import errors
from mooring.client.client import JSON, PatchType

if TYPE_CHECKING:
    from mooring.testing.control_plane import RunningControlPlane

Tree = dict[str, Any]


class CustomKind:
    """The objects of one kind, in its preferred version."""

    def __init__(self, plane: "RunningControlPlane", definition: Tree) -> None:
        spec = definition["spec"]
        self._plane = plane
        self.group: str = spec["group"]
        self.version: str = next(each["name"] for each in spec["versions"] if each.get("served"))
        self.plural: str = spec["names"]["plural"]
        self.kind: str = spec["names"]["kind"]
        self._namespaced = spec["scope"] == "Namespaced"

    def create(self, name: str, spec: Tree | None = None, namespace: str = "default", **fields: Any) -> Tree:
        """Create an object; `fields` are fields beside the spec, such as `metadata`."""
        metadata = {**fields.pop("metadata", {}), "name": name}
        body = {"apiVersion": f"{self.group}/{self.version}", "kind": self.kind, "metadata": metadata, **fields}
        if spec is not None:
            body["spec"] = spec
        return self._request("POST", self._path(namespace), body)

    def get(self, name: str, namespace: str = "default") -> Tree:
        return self._request("GET", self._path(namespace, name))

    def list(self, namespace: str = "") -> list_of[Tree]:
        items: list_of[Tree] = self._request("GET", self._path(namespace))["items"]
        return items

    def patch(self, name: str, body: Tree, namespace: str = "default", subresource: str = "") -> Tree:
        """Apply a merge patch to an object or one of its subresources."""
        path = self._path(namespace, name) + (f"/{subresource}" if subresource else "")
        return self._request("PATCH", path, body, PatchType.MERGE)

    def delete(self, name: str, namespace: str = "default") -> None:
        self._request("DELETE", self._path(namespace, name))

    def wait_until(self, name: str, condition: Callable[[Tree], Any], namespace: str = "default") -> Tree:
        """Wait until a condition holds for an object, and return it; raise TimeoutError."""

        def holds() -> Tree | None:
            found = self.get(name, namespace)
            return found if condition(found) else None

        return self._plane.wait_until(holds)

    def wait_until_gone(self, name: str, namespace: str = "default") -> None:
        def gone() -> bool:
            try:
                self.get(name, namespace)
            except errors.NotFound:
                return True
            return False

        self._plane.wait_until(gone)

    def _path(self, namespace: str, name: str = "") -> str:
        place = f"namespaces/{namespace}/" if self._namespaced and namespace else ""
        path = f"/apis/{self.group}/{self.version}/{place}{self.plural}"
        return f"{path}/{name}" if name else path

    def _request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Tree:
        sent = b"" if body is None else json.dumps(body).encode()
        answer = self._plane.run(self._plane.client.raw(method, path, body=sent, content_type=content_type))
        found: Tree = json.loads(answer.body)
        return found
