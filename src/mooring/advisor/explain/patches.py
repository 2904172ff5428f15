"""Compute JSON patches between two objects, and the equivalent kubectl commands."""

import json
import shlex
from typing import Any

from msgspec import structs

from mooring.advisor.explain.results import Change, Target
from mooring.advisor.snapshot.objects import newest_kind_of
from mooring.api import codec
from mooring.api.meta_v1 import Resource

Operation = dict[str, Any]


def target_of(obj: Resource) -> Target:
    kind = newest_kind_of(type(obj))
    return Target(
        api_version=obj.api_version or kind.api_version,
        kind=obj.kind or kind.kind,
        namespace=obj.metadata.namespace,
        name=obj.metadata.name,
    )


def diff_json(before: Any, after: Any, path: str = "") -> list[Operation]:
    """Return the JSON patch that turns the object `before` into `after`."""
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        found = [{"op": "remove", "path": f"{path}/{_escape_pointer(key)}"} for key in before if key not in after]
        for key, value in after.items():
            below = f"{path}/{_escape_pointer(key)}"
            if key not in before:
                found.append({"op": "add", "path": below, "value": value})
            else:
                found += diff_json(before[key], value, below)
        return found
    if isinstance(before, list) and isinstance(after, list):
        return _diff_lists(before, after, path)
    return [{"op": "replace", "path": path, "value": after}]


def _diff_lists(before: list[Any], after: list[Any], path: str) -> list[Operation]:
    if len(after) > len(before) and after[: len(before)] == before:
        return [{"op": "add", "path": f"{path}/-", "value": value} for value in after[len(before) :]]
    if len(after) == len(before):
        return [
            each
            for index, (old, new) in enumerate(zip(before, after, strict=True))
            for each in diff_json(old, new, f"{path}/{index}")
        ]
    removed = _removed_indices(before, after)
    if removed is not None:
        return [{"op": "remove", "path": f"{path}/{index}"} for index in reversed(removed)]
    return [{"op": "replace", "path": path, "value": after}]


def _removed_indices(before: list[Any], after: list[Any]) -> list[int] | None:
    rest, gone = list(after), []
    for index, value in enumerate(before):
        if rest and rest[0] == value:
            rest.pop(0)
        else:
            gone.append(index)
    return None if rest else gone


def _escape_pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# -- commands


def kubectl_command(*words: str, namespace: str = "") -> str:
    """Return a kubectl command line from its arguments (the verb first), with the namespace, quoted for a shell."""
    scope = ["-n", namespace] if namespace else []
    return shlex.join(["kubectl", *words[:1], *scope, *words[1:]])


def patch_command(target: Target, operations: list[Operation]) -> str:
    patch = ("--type=json", "-p", _compact_json(operations))
    return kubectl_command("patch", kubectl_kind_of(target), target.name, *patch, namespace=target.namespace)


def recreate_command(target: Target, operations: list[Operation]) -> str:
    """Return a command that deletes an object with immutable fields and creates it again, patched."""
    get = kubectl_command("get", kubectl_kind_of(target), target.name, "-o", "yaml", namespace=target.namespace)
    return f"{get} | {_patch_locally('-', operations)} | kubectl replace --force -f -"


def apply_file_command(file: str, operations: list[Operation]) -> str:
    """Return a command that applies a file with a JSON patch made to its object."""
    return f"{_patch_locally(file, operations)} | kubectl apply -f -"


def _patch_locally(file: str, operations: list[Operation]) -> str:
    return kubectl_command("patch", "--local", "-f", file, "--type=json", "-p", _compact_json(operations), "-o", "yaml")


def create_change(obj: Resource) -> Change:
    """Return the change that creates an object, without the fields that only a server writes."""
    whole: dict[str, Any] = codec.to_tree(obj)
    kind = newest_kind_of(type(obj))
    metadata = {key: value for key, value in whole.get("metadata", {}).items() if value}
    rest = {key: value for key, value in whole.items() if key not in ("metadata", "status", "apiVersion", "kind")}
    tree = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}
    return Change(target=target_of(obj), action="create", object=tree, command=create_command(tree))


def create_command(tree: dict[str, Any]) -> str:
    return f"echo {shlex.quote(_compact_json(tree))} | kubectl create -f -"


def delete_change(obj: Resource) -> Change:
    target = target_of(obj)
    command = kubectl_command("delete", kubectl_kind_of(target), target.name, namespace=target.namespace)
    return Change(target=target, action="delete", command=command)


def patch_change(before: Resource, after: Resource, command: str = "") -> Change:
    """Return the change of an object, by `kubectl patch` unless another command is given."""
    operations = diff_json(codec.to_tree(before), codec.to_tree(after))
    target = target_of(before)
    return Change(target=target, action="patch", patch=operations, command=command or patch_command(target, operations))


def recreate_change(before: Resource, after: Resource) -> Change:
    """Return the change of an object with immutable fields: it is deleted and created again."""
    change = patch_change(before, after)
    return structs.replace(change, command=recreate_command(change.target, change.patch))


def kubectl_kind_of(target: Target) -> str:
    """Return kubectl's name of a kind, such as `deployment` or `storageclass.storage.k8s.io`."""
    group = target.api_version.rpartition("/")[0]
    short = target.kind.lower()
    return f"{short}.{group}" if group and group not in ("apps", "batch") else short


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
