"""Which stored objects a request is about: label and field selectors, judged on the stored bytes.

Only the labels, or also the selectable fields of a kind, are decoded, and they are kept for a while by revision, so
that a thousand watchers with selectors cost one decoding an event; and objects that lack the text of a label or field
that they must have are not decoded at all. `FIELDS` says which fields can be selected, as Kubernetes has them. Called
by ``reading.py``, ``watching.py`` and ``deleting.py``.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from mooring.api import errors, field_selector, label_selector
from mooring.api.codec import MANAGED_FIELDS
from mooring.api.dynamic import value_at
from mooring.api.field_selector import FieldSelector
from mooring.api.kinds import Kind
from mooring.api.label_selector import Selector, SelectorError
from mooring.apiserver.messages.http import Request
from mooring.apiserver.registry.stored import Stored
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import KeyValue

MAX_TERMS = 256
"""Of a selector in a request. Each object of a list, and each event of a watch, is tried with each of them."""
_REMEMBERED = 16_384
_KINDS = 1024
_TREE: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_MAY_BE_NO_TEXT = re.compile("|true|false|[-+.0-9].*", re.DOTALL)
"""The values of fields that JSON may have without quotes, or not at all."""
_OF_ALL = frozenset({"metadata.name", "metadata.namespace"})
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class _Field(msgspec.Struct, frozen=True):
    """Where a selectable field stands in the stored object, what counts when it is empty, and its text without both."""

    path: str
    absent: str = ""
    otherwise: str = ""
    """The path of the field that counts instead."""


def _same(*paths: str) -> dict[str, _Field]:
    return {path: _Field(path) for path in paths}


_POD = {
    **_same("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    **_same("status.phase", "status.podIP", "status.nominatedNodeName"),
    "spec.hostNetwork": _Field("spec.hostNetwork", "false"),
}
_EVENT = {
    **{f"involvedObject.{part}": _Field(f"involvedObject.{part}") for part in _REFERENCE},
    **_same("reason", "reportingComponent", "type"),
    "source": _Field("source.component", otherwise="reportingComponent"),
}
_NEW_EVENT = {  # events.k8s.io names the same fields otherwise; its events are stored as those of core/v1
    **{f"regarding.{part}": _Field(f"involvedObject.{part}") for part in _REFERENCE},
    **_same("reason", "type"),
    "reportingController": _Field("reportingComponent"),
}
FIELDS: Mapping[tuple[str, str], Mapping[str, _Field]] = {
    ("", "Pod"): _POD,
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _NEW_EVENT,
    ("", "Node"): {"spec.unschedulable": _Field("spec.unschedulable", "false")},
    ("", "Namespace"): _same("status.phase"),
    ("", "Secret"): _same("type"),
    ("", "Service"): _same("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): {"status.replicas": _Field("status.replicas", "0")},
    ("apps", "ReplicaSet"): {"status.replicas": _Field("status.replicas", "0")},
    ("batch", "Job"): {"status.successful": _Field("status.succeeded", "0")},
    ("certificates.k8s.io", "CertificateSigningRequest"): _same("spec.signerName"),
    ("certificates.k8s.io", "ClusterTrustBundle"): _same("spec.signerName"),
    ("certificates.k8s.io", "PodCertificateRequest"): _same("spec.signerName", "spec.podName", "spec.nodeName"),
    ("resource.k8s.io", "ResourceSlice"): _same("spec.nodeName", "spec.driver"),
}
"""The selectable fields by group and kind, besides `metadata.name` and `metadata.namespace`, which all kinds have."""


class _Facts(NamedTuple):
    labels: Mapping[str, str]
    fields: Mapping[str, str]


class _Hint(NamedTuple):
    """What the bytes of an object have in them if it is selected: many that are not need not be read for that."""

    mark: bytes
    in_metadata: bool

    def rules_out(self, value: bytes) -> bool:
        end = value.find(MANAGED_FIELDS) if self.in_metadata else -1
        return value.find(self.mark, 0, end if end > 0 else len(value)) < 0


class Selection:
    """The selectors of one request."""

    __slots__ = ("_facts_of", "_hint", "asks", "fields", "is_everything", "labels")

    def __init__(
        self,
        labels: Selector,
        fields: FieldSelector,
        facts_of: Callable[[KeyValue], _Facts],
        hint: _Hint | None,
        *,
        asks: bool = False,
    ) -> None:
        self.labels = labels
        self.fields = fields
        self.asks = asks
        """Whether objects must be prepared (``stored.py``) before they are judged, for a webhook knows their fields."""
        self._facts_of = facts_of
        self._hint = hint
        self.is_everything = labels.is_empty() and fields.is_empty()

    def matches(self, kv: KeyValue) -> bool:
        if self.is_everything:
            return True
        if self._hint and self._hint.rules_out(kv.value):
            return False
        facts = self._facts_of(kv)
        return self.labels.matches(facts.labels) and self.fields.matches(facts.fields)

    def one_name(self) -> str | None:
        """The one name that can match."""
        return self.fields.requires_exactly("metadata.name")

    def one_namespace(self) -> str | None:
        return self.fields.requires_exactly("metadata.namespace")


class Selections:
    """Makes the selections of one store, and remembers what they found in its objects."""

    def __init__(self) -> None:
        self._readers: BoundedCache[tuple[Kind, Stored | None, bool], Callable[[KeyValue], _Facts]] = BoundedCache(
            _KINDS
        )

    def of(self, request: Request, kind: Kind, stored: Stored, name: str = "") -> Selection:
        """The selectors in a request's query; `name` restricts it further (a watch of one object).

        Raises BadRequest.
        """
        labels, fields = _selectors_of(request, kind)
        if name:
            fields = FieldSelector((*fields.terms, *field_selector.one_field("metadata.name", name).terms))
        asks = stored.asks and any(term.field not in _OF_ALL for term in fields.terms)
        key = (kind, stored if asks else None, fields.is_empty())
        reader = self._readers.get(key)
        if reader is None:
            reader = _remembering(_reader_for(*key))
            self._readers.put(key, reader)
        return Selection(labels, fields, reader, _hint_of(labels, fields, kind), asks=asks)


def _hint_of(labels: Selector, fields: FieldSelector, kind: Kind) -> _Hint | None:
    """What is quickest to look for: a label, then a field, where there is only one value that can be selected."""
    for requirement in labels.requirements:
        value = labels.requires_exactly(requirement.key)
        if value is not None:
            return _Hint(_member(requirement.key, value), in_metadata=True)
    known = FIELDS.get((kind.group, kind.kind), {})
    for term in fields.terms:
        field = known.get(term.field)
        if field and not (term.negated or field.absent or field.otherwise or _MAY_BE_NO_TEXT.fullmatch(term.value)):
            return _Hint(_member(field.path.rpartition(".")[2], term.value), in_metadata=False)
    return None


def _member(name: str, value: str) -> bytes:
    """A member of an object in JSON."""
    return msgspec.json.encode(name) + b":" + msgspec.json.encode(value)


def _selectors_of(request: Request, kind: Kind) -> tuple[Selector, FieldSelector]:
    try:
        labels = label_selector.parse(request.parameter("labelSelector"))
    except SelectorError as error:
        raise errors.bad_request(f"unable to parse labelSelector: {error}") from None
    try:
        fields = field_selector.parse(request.parameter("fieldSelector"))
    except SelectorError as error:
        raise errors.bad_request(f"unable to parse fieldSelector: {error}") from None
    if len(labels.requirements) > MAX_TERMS or len(fields.terms) > MAX_TERMS:
        raise errors.bad_request(
            f"a selector may have at most {MAX_TERMS} terms, because each object is tried with each"
        )
    known = _custom_fields(kind) if kind.custom else FIELDS.get((kind.group, kind.kind), {})
    for term in fields.terms:
        if term.field not in known and term.field not in _OF_ALL:
            raise errors.bad_request(f"field label not supported: {term.field}")
    return labels, fields


def _reader_for(kind: Kind, converted: Stored | None, labels_only: bool) -> Callable[[KeyValue], _Facts]:
    if labels_only:
        return _read_labels
    return _custom_reader(kind, converted) if kind.custom else _reader(kind)


def _read_labels(kv: KeyValue) -> _Facts:
    """The labels alone, which stand in front of the managed fields, and these in front of everything else."""
    value = kv.value
    end = value.find(MANAGED_FIELDS)
    try:
        labels = _LABELS.decode(value[value.index(b"{", 1) : end] + b"}").labels
    except msgspec.MsgspecError:  # it has no managed fields, unless something in its spec has
        labels = _LABELLED.decode(value).metadata.labels
    return _Facts(labels or {}, {})


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


_LABELS, _LABELLED = msgspec.json.Decoder(_Labels), msgspec.json.Decoder(_Labelled)


@cache
def _reader(kind: Kind) -> Callable[[KeyValue], _Facts]:
    """Reads what can be selected by from stored bytes."""
    fields = {
        "metadata.name": _Field("metadata.name"),
        "metadata.namespace": _Field("metadata.namespace"),
        **FIELDS.get((kind.group, kind.kind), {}),
    }
    paths = [path for field in fields.values() for path in (field.path, field.otherwise) if path]
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_partial_type(["metadata.labels", *paths]))
    getters = {name: (_getter(field), field.absent) for name, field in fields.items()}

    def read(kv: KeyValue) -> _Facts:
        partial = decoder.decode(kv.value)
        texts = {name: _text(get(partial), absent) for name, (get, absent) in getters.items()}
        return _Facts(partial.metadata.labels or {}, texts)

    return read


def _custom_fields(kind: Kind) -> dict[str, str]:
    """The selectable fields of a custom kind, by name, with their paths."""
    given = kind.custom.version.selectable_fields if kind.custom else []
    return {each.json_path.removeprefix("."): each.json_path for each in given}


def _custom_reader(kind: Kind, converted: Stored | None) -> Callable[[KeyValue], _Facts]:
    """The same for a custom kind, whose fields may have any name, and others in the version that is stored."""
    fields = {"metadata.name": ".metadata.name", "metadata.namespace": ".metadata.namespace", **_custom_fields(kind)}

    def read(kv: KeyValue) -> _Facts:
        tree = _TREE.decode(converted.render(kv.value, kv.mod_revision, kind) if converted else kv.value)
        texts = {name: _text(value_at(tree, path), "") for name, path in fields.items()}
        return _Facts(tree["metadata"].get("labels") or {}, texts)

    return read


def _remembering(read: Callable[[KeyValue], _Facts]) -> Callable[[KeyValue], _Facts]:
    remembered: BoundedCache[int, _Facts] = BoundedCache(_REMEMBERED)

    def remember(kv: KeyValue) -> _Facts:
        facts = remembered.get(kv.mod_revision)
        if facts is None:
            facts = read(kv)
            remembered.put(kv.mod_revision, facts)
        return facts

    return remember


def _getter(field: _Field) -> Callable[[Any], Any]:
    first = attrgetter(field.path)
    if not field.otherwise:
        return first
    second = attrgetter(field.otherwise)
    return lambda partial: first(partial) or second(partial)


def _text(value: Any, absent: str) -> str:
    if value is None:
        return absent
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _partial_type(paths: list[str]) -> type[msgspec.Struct]:
    """A struct with nothing but the fields on these paths, for decoding no more than is needed."""
    children: dict[str, list[str]] = {}
    for path in paths:
        head, _, rest = path.partition(".")
        children.setdefault(head, []).append(rest)
    fields: list[tuple[str, Any, Any]] = []
    for name, below in children.items():
        deeper = [path for path in below if path]
        if deeper:
            inner = _partial_type(deeper)
            fields.append((name, inner, msgspec.field(default_factory=inner)))
        else:
            fields.append((name, Any, None))
    return msgspec.defstruct("Partial", fields)
