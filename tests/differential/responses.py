"""Compare what two servers answer to the same request, except for generated values."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from differential.connection import Response
from differential.schema import Tree

Cause = tuple[str, str, str]
"""The reason, field and message of a cause."""
_GENERATED = {"uid", "resourceVersion", "creationTimestamp", "selfLink", "time"}
_ALLOCATED = {"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"}
_GO_TEXTS = ("json: ", "strconv.", "yaml: ", "unmarshal", "cannot unmarshal", "proto")
"""Where a message quotes Go's libraries, its wording may differ."""
_IN_QUOTES = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`')
_TEMPLATE = re.compile(r"\b(spec\.jobTemplate\.)?(spec\.)?template\.")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COMPOSITE = re.compile(
    r"((?:Invalid|Duplicate) value): (?:[{\[].*|null|\"[^\"]*\")(?=: )|(Duplicate value): [{\[].*", re.DOTALL
)
"""A quoted struct, list or string: Kubernetes prints Go's internal representation."""
_NUMBER = re.compile(r"\d+")


def differences(real: Response, ours: Response) -> Iterator[str]:
    """Yield what differs; the real server's answer comes first in each text."""
    if real.code != ours.code:
        yield f"code {real.code} ({_message(real)}), ours {ours.code} ({_message(ours)})"
        return
    if not isinstance(real.body, dict) or not isinstance(ours.body, dict):
        return
    if real.body.get("kind") == "Status" and real.code >= 400:
        yield from _status(real.body, ours.body)
    else:
        yield from _objects(real.body, ours.body)
    missing, extra = Counter(real.warnings) - Counter(ours.warnings), Counter(ours.warnings) - Counter(real.warnings)
    if missing or extra:
        yield f"warnings {sorted(missing)}, ours {sorted(extra)}"


def _message(response: Response) -> str:
    text = response.body.get("message", "") if isinstance(response.body, dict) else str(response.body)
    return str(text)[:300]


def _status(real: Tree, ours: Tree) -> Iterator[str]:
    if real.get("reason") != ours.get("reason"):
        yield f"reason {real.get('reason')}, ours {ours.get('reason')}"
    missing, extra = _causes(real) - _causes(ours), _causes(ours) - _causes(real)
    elsewhere = _at_other_places(missing, extra)
    for cause in elsewhere:
        yield f"missing cause {' '.join(cause)} (ours instead: {sorted(extra)})"
    for cause in _at_other_places(extra, missing):
        yield f"added cause {' '.join(cause)} (instead of: {sorted(missing)})"
    for cause in sorted(missing - Counter(elsewhere)):
        yield f"worded cause {' '.join(cause)} (ours instead: {sorted(extra)})"
    if not _causes(real) and _worded(real.get("message")) != _worded(ours.get("message")):
        yield f"message {real.get('message')!r}, ours {ours.get('message')!r}"


def _at_other_places(causes: "Counter[Cause]", others: "Counter[Cause]") -> list[Cause]:
    """Return the causes that no other one matches in reason and field."""
    left = Counter((reason, field) for reason, field, _ in others.elements())
    found = []
    for cause in sorted(causes.elements()):
        if left[cause[:2]]:
            left[cause[:2]] -= 1
        else:
            found.append(cause)
    return found


def _causes(status: Tree) -> "Counter[Cause]":
    causes = (status.get("details") or {}).get("causes") or ()
    return Counter((each.get("reason", ""), each.get("field", ""), _worded(each.get("message"))) for each in causes)


def _worded(message: Any) -> str:
    text = _COMPOSITE.sub(r"\1\2", str(message or "").split("\n@@")[0])
    if " cannot be handled as a " in text:
        return text.split(": ", 1)[0]
    return "(quotes Go)" if any(each in text for each in _GO_TEXTS) else text


def _objects(real: Tree, ours: Tree) -> Iterator[str]:
    one, other = normalize(real), normalize(ours)
    fields = [_owned(each, (each.get("metadata") or {}).pop("managedFields", None)) for each in (one, other)]
    yield from _values((), one, other)
    managers = [[str(entry.get("manager")) for entry in each or ()] for each in fields]
    if managers[0] != managers[1]:
        yield f"managers {managers[0]}, ours {managers[1]}"
    else:
        yield from _values(("metadata", "managedFields"), *fields)


def _owned(obj: Tree, entries: list[Tree] | None) -> list[Tree] | None:
    """Return the managers of fields that have a value; Kubernetes also records what a client sent empty."""
    found = []
    for entry in entries or ():
        fields = _with_value(entry.get("fieldsV1") or {}, obj)
        if fields:
            found.append({**entry, "fieldsV1": fields})
    return found or None


def _with_value(fields: Tree, value: Any) -> Tree:
    found = {}
    for element, below in fields.items():
        child = _child(value, element)
        if element == "." or child not in (None, [], {}):
            found[element] = left = _with_value(below, child)
            if below and not left:
                del found[element]
    return found


def _child(value: Any, element: str) -> Any:
    """Return the part of a value that an element of `fieldsV1` names: a field, an item by its keys, or a plain item."""
    kind, _, name = element.partition(":")
    if kind == "f":
        return value.get(name) if isinstance(value, dict) else None
    if kind not in ("k", "v") or not isinstance(value, list):
        return None
    wanted = json.loads(name)
    if kind == "v":
        return wanted if wanted in value else None
    return next((each for each in value if wanted.items() <= {**dict.fromkeys(wanted), **each}.items()), None)


def normalize(value: Any, key: str = "") -> Any:
    """Replace generated values by a mark that they are there."""
    if key in _GENERATED or key.endswith(("Time", "Timestamp", "timeAdded")):
        return "…" if value else value
    if key in _ALLOCATED:
        return _allocated(value)
    if isinstance(value, dict):
        return {name: normalize(each, name) for name, each in value.items()}
    if isinstance(value, list):
        if key == "managedFields":
            return sorted((normalize(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
        return [normalize(each) for each in value]
    return "…" if isinstance(value, str) and _UID.fullmatch(value) else value


def _allocated(value: Any) -> Any:
    if isinstance(value, list):
        return [_allocated(each) for each in value]
    return value if value in (None, "", "None", 0) or isinstance(value, dict) else "allocated"


def _values(path: tuple[str, ...], real: Any, ours: Any) -> Iterator[str]:
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted({*real, *ours}):
            yield from _values((*path, key), real.get(key), ours.get(key))
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (one, other) in enumerate(zip(real, ours, strict=True)):
            yield from _values((*path, str(index)), one, other)
    elif real != ours:
        yield f"at {'.'.join(path)}: {json.dumps(real)[:200]}, ours {json.dumps(ours)[:200]}"


def shape(text: str) -> str:
    """Return a difference without the values in it, so that differences of one origin have one shape."""
    text = _TEMPLATE.sub("", text.split(" (ours instead: ", maxsplit=1)[0].split(" (instead of: ", maxsplit=1)[0])
    return _NUMBER.sub("N", _IN_QUOTES.sub('"…"', text))[:700]
