"""Run admission on an object with given options: what it rejects and what it drops.

The rules are the server's own, without those that depend on other objects (namespaces, priority classes), which no gate
or version affects. Comparing two results shows the effect of a gate: see ``uses.py`` and ``outcomes.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_update
from mooring.admission.pod.affinity import IN_BOTH
from mooring.admission.registry import strategy_of
from mooring.admission.strategy import NoCluster, Priority, Request
from mooring.api import codec, errors
from mooring.api.meta_v1 import Resource


@dataclass(frozen=True, slots=True)
class AdmissionResult:
    """Rejected fields with the server's messages, and dropped fields."""

    refused: dict[str, str]
    dropped: frozenset[str] = frozenset()

    def beyond(self, other: "AdmissionResult") -> "AdmissionResult":
        """Return what this result has and the other has not; a rejected field cannot be dropped."""
        refused = {field: text for field, text in self.refused.items() if field not in other.refused}
        return AdmissionResult(refused, self.dropped - other.dropped - other.refused.keys())

    @property
    def is_clean(self) -> bool:
        return not self.refused and not self.dropped


class _AnyCluster(NoCluster):
    """A cluster in which every referenced object exists."""

    def priority_class(self, name: str) -> Priority | None:
        return super().priority_class(name) or Priority(name, 0)


def has_rules(obj: Resource) -> bool:
    """Whether admission knows the kind."""
    try:
        strategy_of(type(obj))
    except KeyError:
        return False
    return True


def default(obj: Resource) -> None:
    """Default an object in place."""
    if has_rules(obj):
        strategy_of(type(obj)).default(obj)


def create(obj: Resource, options: AdmissionOptions, now: datetime) -> AdmissionResult:
    """Run admission of a create."""
    made = _copy(obj)
    strategy = strategy_of(type(made))
    strategy.default(made)
    made.metadata.name = made.metadata.name or "any"  # the server generates one
    given = _content(made)
    fields = options.release_fields
    if fields:
        fields.drop(made, None)
    strategy.prepare_for_create(made, _request(obj, options, now))
    problems = strategy.validate_create(made, _request(obj, options, now))
    refused: dict[str, str] = {}
    for problem in problems + (fields.problems(made, None) if fields else []):
        if problem.field.startswith("metadata.") or problem.detail == IN_BOTH:
            continue  # no gate decides about the one; the other was merged when the object was created
        refused.setdefault(problem.field, str(problem))
    return AdmissionResult(refused, dropped(given, made))


def update(obj: Resource, options: AdmissionOptions, now: datetime) -> AdmissionResult:
    """Run admission of an update that writes the stored object back unchanged."""
    stored = _copy(obj)
    strategy_of(type(stored)).default(stored)
    stored.metadata.resource_version = stored.metadata.resource_version or "1"
    made = _copy(stored)
    try:
        admit_update(made, stored, _request(obj, options, now))
    except errors.StatusError as refusal:
        details = refusal.status.details
        causes = details.causes if details else []
        return AdmissionResult(
            {cause.field: f"{cause.field}: {cause.message}" for cause in causes} or {"": str(refusal)}
        )
    return AdmissionResult({}, frozenset(missing(_content(stored), _content(made))))


def _request(obj: Resource, options: AdmissionOptions, now: datetime) -> Request:
    return Request(options=options, lookups=_AnyCluster(), now=now, namespace=obj.metadata.namespace)


def _copy(obj: Resource) -> Resource:
    return codec.decode_own(codec.encode(obj), type(obj))


def _content(obj: Resource) -> dict[str, Any]:
    return {name: part for name, part in codec.to_tree(obj).items() if name not in ("metadata", "status")}


def dropped(given: dict[str, Any], made: Resource) -> frozenset[str]:
    """Return the paths of fields that admission dropped.

    Fields that the server would default to the same value do not count.
    """
    lost = frozenset(missing(given, _content(made)))
    if not lost:
        return lost
    filled = _copy(made)
    default(filled)
    return frozenset(missing(given, _content(made), _content(filled)))


def missing(given: Any, kept: Any, filled: Any = None, path: str = "") -> Iterator[str]:
    """Yield the paths in `given` that are neither in `kept` nor equal in `filled`."""
    if given in (kept, filled):
        return
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            here = f"{path}.{name}" if path else name
            put_back = filled.get(name) if isinstance(filled, dict) else None
            if name not in kept and value != put_back:
                yield here
            elif name in kept and isinstance(value, dict | list):
                yield from missing(value, kept[name], put_back, here)
    elif isinstance(given, list) and isinstance(kept, list):
        for index, value in enumerate(given[: len(kept)]):
            if isinstance(value, dict | list):
                put_back = filled[index] if isinstance(filled, list) else None
                yield from missing(value, kept[index], put_back, f"{path}[{index}]")
