"""Label and field selectors of requests, matched against stored bytes.

Only labels, or also the selectable fields of a kind, are decoded. They are cached by revision, so that a thousand
watchers with selectors cost one decoding per event. Objects without the bytes of a required label or field are not
decoded at all. `FIELDS` has the selectable fields, as in Kubernetes. Called by lists, watches and ``deletecollection``.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from mooring.api import errors, field_selector, label_selector
from mooring.api.dynamic import value_at
from mooring.api.field_selector import FieldSelector
from mooring.api.kinds import Kind
from mooring.api.label_selector import Selector, SelectorError
from mooring.apiserver.messages.http import Request
from mooring.apiserver.output import json_bytes
from mooring.apiserver.registry.storage.decoded_cache import labels_of
from mooring.apiserver.registry.storage.stored import Stored
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import KeyValue

MAX_TERMS = 256
_MAX_CACHED = 16_384
_MAX_READERS = 1024
_TREE: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_MAY_BE_UNQUOTED = re.compile("|true|false|[-+.0-9].*", re.DOTALL)
"""Field values that stored JSON may have without quotes, or omit."""
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class _FieldReader(msgspec.Struct, frozen=True):
    """A field usable in field selectors: its path in the stored object, its default, and an alternative path."""

    path: str
    default: str = ""
    fallback: str = ""


def _fields(*paths: str) -> dict[str, _FieldReader]:
    return {path: _FieldReader(path) for path in paths}


_COMMON_FIELDS = _fields("metadata.name", "metadata.namespace")
_POD = {
    **_fields("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    **_fields("status.phase", "status.podIP", "status.nominatedNodeName"),
    "spec.hostNetwork": _FieldReader("spec.hostNetwork", "false"),
}
_EVENT = {
    **{f"involvedObject.{part}": _FieldReader(f"involvedObject.{part}") for part in _REFERENCE},
    **_fields("reason", "reportingComponent", "type"),
    "source": _FieldReader("source.component", fallback="reportingComponent"),
}
_NEW_EVENT = {  # events.k8s.io has other names for the same fields; its events are stored as those of core/v1
    **{f"regarding.{part}": _FieldReader(f"involvedObject.{part}") for part in _REFERENCE},
    **_fields("reason", "type"),
    "reportingController": _FieldReader("reportingComponent"),
}
FIELDS: Mapping[tuple[str, str], Mapping[str, _FieldReader]] = {
    ("", "Pod"): _POD,
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _NEW_EVENT,
    ("", "Node"): {"spec.unschedulable": _FieldReader("spec.unschedulable", "false")},
    ("", "Namespace"): _fields("status.phase"),
    ("", "Secret"): _fields("type"),
    ("", "Service"): _fields("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): {"status.replicas": _FieldReader("status.replicas", "0")},
    ("apps", "ReplicaSet"): {"status.replicas": _FieldReader("status.replicas", "0")},
    ("batch", "Job"): {"status.successful": _FieldReader("status.succeeded", "0")},
    ("certificates.k8s.io", "CertificateSigningRequest"): _fields("spec.signerName"),
    ("certificates.k8s.io", "ClusterTrustBundle"): _fields("spec.signerName"),
    ("certificates.k8s.io", "PodCertificateRequest"): _fields("spec.signerName", "spec.podName", "spec.nodeName"),
    ("resource.k8s.io", "ResourceSlice"): _fields("spec.nodeName", "spec.driver"),
}
"""The selectable fields by group and kind, besides `metadata.name` and `metadata.namespace`, which all kinds have."""


class _Selectable(NamedTuple):
    """The labels and fields of one object that selectors can refer to."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]


_Read = Callable[[KeyValue], _Selectable]


class _ByteHint(NamedTuple):
    """Bytes that every matching object's JSON contains, by which others are skipped without decoding."""

    mark: bytes
    in_metadata: bool

    def rules_out(self, value: bytes) -> bool:
        end = json_bytes.find_managed_fields_begin(value) if self.in_metadata else -1
        return value.find(self.mark, 0, end if end > 0 else len(value)) < 0


class Selection(msgspec.Struct, frozen=True):
    """The label and field selectors of a request, which `matches` evaluates on stored objects."""

    labels: Selector
    fields: FieldSelector
    is_everything: bool
    needs_webhook: bool
    """Whether a conversion webhook must be called before objects can be matched (`Stored.prepare`)."""
    read: _Read
    hint: _ByteHint | None

    def matches(self, kv: KeyValue) -> bool:
        if self.is_everything:
            return True
        if self.hint and self.hint.rules_out(kv.value):
            return False
        found = self.read(kv)
        return self.labels.matches(found.labels) and self.fields.matches(found.fields)

    def one_name(self) -> str | None:
        """Return the object name that the field selector requires; None if several can match."""
        return self.fields.requires_exactly("metadata.name")

    def one_namespace(self) -> str | None:
        """Return the namespace that the field selector requires; None if several can match."""
        return self.fields.requires_exactly("metadata.namespace")


class Selections:
    """Parses requests' selectors into `Selection` objects, which share a cache of decoded labels and fields."""

    def __init__(self) -> None:
        self._readers: BoundedCache[tuple[Kind, Stored | None, bool], _Read] = BoundedCache(_MAX_READERS)

    def selection_for(self, request: Request, kind: Kind, stored: Stored, name: str = "") -> Selection:
        """Return a request's selectors; with `name`, only that object matches. Raise BadRequest if malformed."""
        labels, fields = _selectors_of(request, kind)
        if name:
            fields = FieldSelector((*fields.terms, *field_selector.one_field("metadata.name", name).terms))
        needs_webhook = stored.needs_webhook and any(term.field not in _COMMON_FIELDS for term in fields.terms)
        key = (kind, stored if needs_webhook else None, fields.is_empty())
        reader = self._readers.get(key)
        if reader is None:
            reader = _cache_selectable(_reader_for(*key))
            self._readers.put(key, reader)
        is_everything = labels.is_empty() and fields.is_empty()
        return Selection(labels, fields, is_everything, needs_webhook, reader, _hint_of(labels, fields, kind))


def _hint_of(labels: Selector, fields: FieldSelector, kind: Kind) -> _ByteHint | None:
    """Return bytes that matching objects contain, from a label or field with a required value; else None."""
    for requirement in labels.requirements:
        value = labels.requires_exactly(requirement.key)
        if value is not None:
            return _ByteHint(json_bytes.encode_string_field(requirement.key, value), in_metadata=True)
    known = FIELDS.get((kind.group, kind.kind), {})
    for term in fields.terms:
        field = known.get(term.field)
        if field and not (term.negated or field.default or field.fallback or _MAY_BE_UNQUOTED.fullmatch(term.value)):
            return _ByteHint(
                json_bytes.encode_string_field(field.path.rpartition(".")[2], term.value), in_metadata=False
            )
    return None


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
    known = _fields_of(kind)
    for term in fields.terms:
        if term.field not in known:
            raise errors.bad_request(f"field label not supported: {term.field}")
    return labels, fields


def _reader_for(kind: Kind, converted: Stored | None, labels_only: bool) -> _Read:
    if labels_only:
        return lambda kv: _Selectable(labels_of(kv), {})
    return _custom_reader(kind, converted) if kind.custom else _built_in_reader(kind)


@cache
def _built_in_reader(kind: Kind) -> _Read:
    """Return a function that decodes the labels and selectable fields of a built-in kind's stored object."""
    fields = _fields_of(kind)
    paths = [path for field in fields.values() for path in (field.path, field.fallback) if path]
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_partial_type(["metadata.labels", *paths]))
    getters = {name: (_attribute_getter(field), field.default) for name, field in fields.items()}

    def read(kv: KeyValue) -> _Selectable:
        partial = decoder.decode(kv.value)
        texts = {name: _field_as_text(get(partial), default) for name, (get, default) in getters.items()}
        return _Selectable(partial.metadata.labels or {}, texts)

    return read


def _fields_of(kind: Kind) -> dict[str, _FieldReader]:
    """Return all fields of a kind that selectors may name."""
    if kind.custom:
        own = _fields(*(each.json_path.removeprefix(".") for each in kind.custom.version.selectable_fields))
        return {**_COMMON_FIELDS, **own}
    return {**_COMMON_FIELDS, **FIELDS.get((kind.group, kind.kind), {})}


def _custom_reader(kind: Kind, converted: Stored | None) -> _Read:
    """Return a function that decodes the labels and selectable fields of a custom object, converted if needed."""
    paths = {name: f".{field.path}" for name, field in _fields_of(kind).items()}

    def read(kv: KeyValue) -> _Selectable:
        tree = _TREE.decode(converted.render(kv.value, kv.mod_revision, kind) if converted else kv.value)
        texts = {name: _field_as_text(value_at(tree, path), "") for name, path in paths.items()}
        return _Selectable(tree["metadata"].get("labels") or {}, texts)

    return read


def _cache_selectable(read: _Read) -> _Read:
    """Cache what `read` returns, by revision and key: in etcd, objects that are written together share a revision."""
    cache: BoundedCache[tuple[int, str], _Selectable] = BoundedCache(_MAX_CACHED)

    def read_selectable(kv: KeyValue) -> _Selectable:
        place = (kv.mod_revision, kv.key)
        found = cache.get(place)
        if found is None:
            found = read(kv)
            cache.put(place, found)
        return found

    return read_selectable


def _attribute_getter(field: _FieldReader) -> Callable[[Any], Any]:
    first = attrgetter(field.path)
    if not field.fallback:
        return first
    second = attrgetter(field.fallback)
    return lambda partial: first(partial) or second(partial)


def _field_as_text(value: Any, default: str) -> str:
    if value is None:
        return default
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _partial_type(paths: list[str]) -> type[msgspec.Struct]:
    """Return a struct type with only the fields on some paths, so that decoding skips all others."""
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
