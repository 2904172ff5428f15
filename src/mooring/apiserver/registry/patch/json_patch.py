"""JSON Patch (RFC 6902), a list of operations that all succeed or none is applied; and the errors of all patches.

PatchError         the patch itself is invalid (HTTP 400)
└── Inapplicable   the patch cannot be applied to this object (HTTP 422)
"""

# ruff: noqa: N818 - errors are named after the condition

import copy
from typing import Any

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import StatusDetails

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 * 1024 * 1024
"""The maximum amount that one patch may copy, so that a short patch cannot create a huge object."""
MAX_MOVED = 100_000_000
"""The maximum number of list items that one patch may shift by insertions and removals: a fraction of a second."""
_SHALLOW = 20
_REJECTED = "the server rejected our request due to an error in our request"


class PatchError(Exception):
    """A patch is malformed (HTTP 400); the message says why."""

    def status(self, kind: Kind, name: str) -> StatusError:  # noqa: ARG002 - the subclass names the object
        return errors.bad_request(f"error decoding patch: {self}")


class Inapplicable(PatchError):
    """A valid patch cannot be applied to this object, such as a missing path (HTTP 422)."""

    def status(self, kind: Kind, name: str) -> StatusError:
        """Return the error for the client, which gives no reason, as in Kubernetes."""
        refusal = errors.invalid(kind.kind, name, [], group=kind.group)
        refusal.status.message = _REJECTED
        refusal.status.details = StatusDetails()
        return refusal


def check_operations(operations: Any) -> None:
    """Raise PatchError if the operations of a JSON patch are malformed."""
    if not isinstance(operations, list):
        raise PatchError("a JSON patch is an array of operations")
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    for operation in operations:
        _check_operation(operation)


def is_shallow(operations: list[dict[str, Any]]) -> bool:
    """Return whether operations can nest a tree only slightly deeper, so that its depth needs no check."""
    return all(each["op"] not in {"move", "copy"} and each["path"].count("/") <= _SHALLOW for each in operations)


def apply(operations: list[dict[str, Any]], tree: Any) -> Any:
    """Apply checked operations to a JSON tree; return it, modified. Raise Inapplicable if one fails."""
    document = _Document(tree)
    for operation in operations:
        document.apply(operation)
    return document.root


def _check_operation(operation: Any) -> None:
    if not isinstance(operation, dict):
        raise PatchError("an operation of a JSON patch is an object")
    name = operation.get("op")
    if name not in {"add", "remove", "replace", "move", "copy", "test"}:
        raise PatchError(f"Unexpected kind: {name}")
    for key in ("path", "from") if name in {"move", "copy"} else ("path",):
        pointer = operation.get(key)
        if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
            raise PatchError(f"{name} operation needs a {key} that begins with a slash")
    if name in {"add", "replace"} and "value" not in operation:
        raise PatchError(f"{name} operation needs a value")


class _Document:
    """A JSON tree, addressed by RFC 6901 pointers."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied = 0
        self._moved = 0

    def apply(self, operation: dict[str, Any]) -> None:
        path = _pointer_steps(operation["path"])
        match operation["op"]:
            case "replace" if path:
                self._replace(path, operation["value"])
            case "add" | "replace":
                self._add(path, operation["value"])
            case "remove":
                self._remove(path)
            case "move":
                source = _pointer_steps(operation["from"])
                if path[: len(source)] == source and path != source:
                    raise Inapplicable(f"cannot move {operation['from']} into itself")
                self._add(path, self._remove(source))
            case "copy":
                value = self._find_value(_pointer_steps(operation["from"]))
                self._copied += len(str(value))
                if self._copied > MAX_COPIED:
                    raise Inapplicable("the copy operations of the patch make the object too large")
                self._add(path, copy.deepcopy(value))
            case "test":
                self._test(path, operation)

    def _find_value(self, path: list[str]) -> Any:
        value = self.root
        for index, part in enumerate(path):
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list):
                value = value[_parse_index(part, len(value) - 1, path)]
            else:
                raise Inapplicable(f"doc is missing path: {_pointer(path[: index + 1])}: missing value")
        return value

    def _parent(self, path: list[str], missing: str) -> tuple[Any, str]:
        """Return the container of a path's target and the key or index in it; raise `missing` without one."""
        try:
            return self._find_value(path[:-1]), path[-1]
        except Inapplicable:
            raise Inapplicable(f"{missing}: missing value") from None

    def _add(self, path: list[str], value: Any) -> None:
        if not path:
            self.root = value
            return
        parent, last = self._parent(path, f'add operation does not apply: doc is missing path: "{_pointer(path)}"')
        if isinstance(parent, dict):
            parent[last] = value
        elif isinstance(parent, list):
            place = len(parent) if last == "-" else _parse_index(last, len(parent), path)
            self._count_moved(len(parent) - place)
            parent.insert(place, value)
        else:
            raise Inapplicable(f'add operation does not apply: doc is missing path: "{_pointer(path)}": missing value')

    def _remove(self, path: list[str]) -> Any:
        if not path:
            raise Inapplicable("remove operation does not apply to the whole document")
        where = _pointer(path)
        parent, last = self._parent(path, f'remove operation does not apply: doc is missing path: "{where}"')
        if isinstance(parent, dict) and last in parent:
            return parent.pop(last)
        if isinstance(parent, list):
            place = _parse_index(last, len(parent) - 1, path)
            self._count_moved(len(parent) - place)
            return parent.pop(place)
        why = f"Unable to remove nonexistent key: {last}: missing value"
        raise Inapplicable(f"error in remove for path: '{where}': {why}")

    def _count_moved(self, items: int) -> None:
        self._moved += items
        if self._moved > MAX_MOVED:
            raise Inapplicable("the operations of the patch move too many items of lists")

    def _replace(self, path: list[str], value: Any) -> None:
        parent, last = self._parent(path, f"replace operation does not apply: doc is missing path: {_pointer(path)}")
        if isinstance(parent, dict) and last in parent:
            parent[last] = value
        elif isinstance(parent, list):
            parent[_parse_index(last, len(parent) - 1, path)] = value
        else:
            raise Inapplicable(f"replace operation does not apply: doc is missing key: {_pointer(path)}: missing value")

    def _test(self, path: list[str], operation: dict[str, Any]) -> None:
        wanted = operation.get("value")
        try:
            found = self._find_value(path)
        except Inapplicable:
            if wanted is None:
                return  # null and absent are the same to the API
            raise
        if not _are_equal(found, wanted):
            raise Inapplicable(f"testing value {operation['path']} failed: test failed")


def _pointer_steps(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _pointer(path: list[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _parse_index(text: str, highest: int, path: list[str]) -> int:
    """Parse a list index, a negative one from the end; raise Inapplicable if it is not from 0 to `highest` then."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9 or (len(digits) > 1 and digits[0] == "0"):
        raise Inapplicable(f"{_pointer(path)}: {text!r} is not the index of an array")
    index = int(text)
    if index < 0:
        index += highest + 1
    if not 0 <= index <= highest:
        raise Inapplicable(f"Unable to access invalid index: {text}: {_pointer(path)}")
    return index


def _are_equal(a: Any, b: Any) -> bool:
    """Return whether two JSON values are equal; true and 1 are not, unlike in Python."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_are_equal(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_are_equal, a, b))
    return bool(a == b)
