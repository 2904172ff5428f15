"""What admission says about an object, by given options: what it refuses, and what it drops.

The rules are the server's own; only what depends on other objects (namespaces, priority classes) is left out, since no
gate or version decides about it. Two judgements are compared to learn what a gate does: see ``uses.py``, which calls
this, and ``outcomes.py``.
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
class Judgement:
    """What is refused, as the server words it, and what is dropped; both by field."""

    refused: dict[str, str]
    dropped: frozenset[str] = frozenset()

    def beyond(self, other: "Judgement") -> "Judgement":
        """The fields that this one complains about and the other does not; what was refused cannot get lost."""
        refused = {field: text for field, text in self.refused.items() if field not in other.refused}
        return Judgement(refused, self.dropped - other.dropped - other.refused.keys())

    @property
    def is_clean(self) -> bool:
        return not self.refused and not self.dropped


class _AnyCluster(NoCluster):
    """A cluster in which whatever an object names is there."""

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
    """Fill in what a server fills in, in place, where that is missing in what somebody gave us."""
    if has_rules(obj):
        strategy_of(type(obj)).default(obj)


def create(obj: Resource, options: AdmissionOptions, now: datetime) -> Judgement:
    """What the server would say if the object were created anew."""
    made = _copy(obj)
    strategy = strategy_of(type(made))
    strategy.default(made)
    made.metadata.name = made.metadata.name or "any"  # the server makes one up
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
    return Judgement(refused, dropped(given, made))


def update(obj: Resource, options: AdmissionOptions, now: datetime) -> Judgement:
    """What the server would say if the stored object were written back as it is."""
    stored = _copy(obj)
    strategy_of(type(stored)).default(stored)
    stored.metadata.resource_version = stored.metadata.resource_version or "1"
    made = _copy(stored)
    try:
        admit_update(made, stored, _request(obj, options, now))
    except errors.StatusError as refusal:
        details = refusal.status.details
        causes = details.causes if details else []
        return Judgement({cause.field: f"{cause.field}: {cause.message}" for cause in causes} or {"": str(refusal)})
    return Judgement({}, frozenset(missing(_content(stored), _content(made))))


def _request(obj: Resource, options: AdmissionOptions, now: datetime) -> Request:
    return Request(options=options, lookups=_AnyCluster(), now=now, namespace=obj.metadata.namespace)


def _copy(obj: Resource) -> Resource:
    """A copy that admission may change: through JSON, which is several times as fast as field by field."""
    return codec.decode_own(codec.encode(obj), type(obj))


def _content(obj: Resource) -> dict[str, Any]:
    """What a client says in an object, apart from its name and labels."""
    return {name: part for name, part in codec.to_tree(obj).items() if name not in ("metadata", "status")}


def dropped(given: dict[str, Any], made: Resource) -> frozenset[str]:
    """The paths of what is in the tree of an object and not in what a server made of it.

    What the server would have filled in itself, with the same value, is not counted: nobody has asked for it.
    """
    lost = frozenset(missing(given, _content(made)))
    if not lost:
        return lost
    filled = _copy(made)
    default(filled)
    return frozenset(missing(given, _content(made), _content(filled)))


def missing(given: Any, kept: Any, filled: Any = None, path: str = "") -> Iterator[str]:
    """The paths of what is in `given` and no longer in `kept`, nor the same in `filled`."""
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
