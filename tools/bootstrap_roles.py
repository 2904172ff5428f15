"""Writes the roles and bindings that a kube-apiserver begins with, as data for Mooring's own start.

    kubectl get clusterroles,clusterrolebindings,roles,rolebindings -A -o json > all.json
    .venv/bin/python -m tools.bootstrap_roles < all.json

The cluster is a kube-apiserver of Kubernetes 1.37 that has just been started, without controllers. Left out is what a
server adds to every object. ``tests/real/test_bootstrap_roles.py`` compares the file with such a server.
"""

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "src" / "mooring" / "apiserver" / "access" / "kubernetes_roles.json"
KINDS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_OF_THE_SERVER = ("creationTimestamp", "managedFields", "resourceVersion", "uid")
Tree = dict[str, Any]


def main() -> None:
    FILE.write_text(text(json.load(sys.stdin)["items"]))


def text(items: list[Tree]) -> str:
    """Return the file's text: a list for each kind, one object a line."""
    lists = []
    for kind in KINDS:
        lines = sorted(json.dumps(plain(each), sort_keys=True) for each in items if each["kind"] == kind)
        lists.append(f'"{kind}": [\n' + ",\n".join(lines) + "\n]")
    return "{" + ",\n".join(lists) + "}\n"


def plain(item: Tree) -> Tree:
    """Return an object without what the server adds."""
    metadata = {name: value for name, value in item["metadata"].items() if name not in _OF_THE_SERVER}
    return {name: value for name, value in item.items() if value is not None} | {"metadata": metadata}


if __name__ == "__main__":
    main()
