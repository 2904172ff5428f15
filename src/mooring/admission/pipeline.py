"""Admission from end to end: turn a decoded object into the one to store, or reject it.

Called by the API server for every write, and by lint and replay without a server. The order of the steps and the error
messages are those of Kubernetes. Everything is a function of its arguments: time, lookups and options come with the
`Request`. Differences between kinds are in their `Strategy`. Read next: ``strategy.py``, then ``pod/``.

    admitted = admit_create(pod, Request(options=options, now=clock.now(), namespace="default"))
    admitted.object, admitted.warnings

With policies or webhooks, the two halves (`begin_…`, `finish_…`) are called separately. Deletion has no admission of
its own; binding a pod is in ``pod/binding.py``.
"""

import os
import struct
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import structs

from mooring.admission import rows
from mooring.admission.registry import strategy_of
from mooring.admission.strategy import Request, Strategy
from mooring.api import errors, field_errors, meta_v1, times
from mooring.api.base import copy_of
from mooring.api.batch_writes import Row
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path
from mooring.api.meta_v1 import Resource

T = TypeVar("T", bound=meta_v1.Resource)

MAX_GENERATED_BASE = 63 - 5
_UIDS_AT_ONCE = 128
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no similar characters, so that no words are formed


class AdmissionResult(msgspec.Struct, Generic[T], frozen=True):
    """The result of admission: the object to store, and the warnings for the client."""

    object: T
    warnings: list[str]


def admit_create(obj: T, request: Request, *, defaulted: bool = False) -> AdmissionResult[T]:
    """Default, mutate and validate a new object in place, without policies. Raise StatusError if it is rejected."""
    begin_create(obj, request, defaulted=defaulted)
    return finish_create(obj, request)


def begin_create(obj: T, request: Request, *, defaulted: bool = False) -> None:
    """Default (unless `defaulted`) and mutate a new object in place: the steps before mutating policies."""
    strategy: Strategy[T] = strategy_of(type(obj))
    _require_same_namespace(obj, strategy, request)
    if not defaulted:
        strategy.default(obj)
    if strategy.namespaced:
        _require_active_namespace(obj, strategy, request)
    strategy.mutate(obj, None, request)


def finish_create(obj: T, request: Request) -> AdmissionResult[T]:
    """Name and validate a new object after mutating policies, before validating ones. Raise StatusError if rejected."""
    strategy: Strategy[T] = strategy_of(type(obj))
    _require_same_namespace(obj, strategy, request)  # which a webhook may have changed
    _set_system_metadata(obj, request)
    generate_name(obj.metadata)  # before the kind prepares the object: Jobs and namespaces label things by their name
    fields = request.options.release_fields
    if fields:
        fields.reset_disabled(obj, None)
    strategy.prepare_for_create(obj, request)
    problems = field_errors.run_within_budget(strategy.validate_create, obj, request)
    problems += fields.validate_too_new(obj, None) if fields else []
    if problems:
        raise _invalid(strategy, obj, problems)
    for text in strategy.warnings(obj, None, request):
        request.warn(text)
    strategy.admit(obj, None, request)
    return AdmissionResult(obj, request.warnings)


def admit_update(new: T, old: T, request: Request, subresource: str = "") -> AdmissionResult[T]:
    """Default, mutate and validate an updated object in place, without policies. Raise StatusError if it is rejected.

    `subresource` is empty for the object itself. The caller has already compared the resource versions.
    """
    begin_update(new, old, request, subresource)
    return finish_update(new, old, request, subresource)


def begin_update(new: T, old: T, request: Request, subresource: str = "") -> None:
    """Default and mutate an updated object in place: the steps before mutating policies and webhooks."""
    main: Strategy[T] = strategy_of(type(new))
    strategy = main.subresources[subresource] if subresource else main
    _require_same_namespace(new, main, request)
    _require_same_name(new, request)
    strategy.default(new)
    strategy.mutate(new, old, request)


def mutate_again(obj: T, old: T | None, request: Request, subresource: str = "") -> None:
    """Repeat the mutation by built-in admission plugins after a mutating policy or webhook changed the object."""
    strategy: Strategy[T] = strategy_of(type(obj))
    (strategy.subresources[subresource] if subresource else strategy).mutate(obj, old, request)


def finish_update(new: T, old: T, request: Request, subresource: str = "") -> AdmissionResult[T]:
    """Validate an updated object after mutating policies, before validating ones; return it, or raise StatusError."""
    main: Strategy[T] = strategy_of(type(new))
    strategy = main.subresources[subresource] if subresource else main
    _require_same_namespace(new, main, request)  # which a webhook may have changed, as it may the name
    _require_same_name(new, request)
    _keep_identity(new, old)
    if not new.metadata.resource_version:
        if not main.allow_unconditional_update:
            path = Path("metadata.resourceVersion")
            wrong = field_errors.invalid(path, 0, "must be specified for an update")
            raise errors.invalid(main.resource, new.metadata.name, [wrong], group=main.group)
        new.metadata.resource_version = old.metadata.resource_version
    if subresource:
        restore_metadata(new, old, main.group, main.resource, subresource)
    fields = None if subresource else request.options.release_fields
    if fields:
        fields.reset_disabled(new, old)
    strategy.prepare_for_update(new, old, request)
    problems = field_errors.run_within_budget(strategy.validate_update, new, old, request)
    problems += fields.validate_too_new(new, old) if fields else []
    if problems:
        raise _invalid(main, new, problems)
    for text in strategy.warnings(new, old, request):
        request.warn(text)
    strategy.admit(new, old, request)
    return AdmissionResult(new, request.warnings)


def _require_same_namespace(obj: meta_v1.Resource, strategy: Strategy[Any], request: Request) -> None:
    wanted = request.namespace if strategy.namespaced else ""
    given = obj.metadata.namespace
    if given and not strategy.namespaced:
        obj.metadata.namespace = ""  # Kubernetes forgives it on cluster-scoped kinds
    elif given != wanted:
        if given:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        obj.metadata.namespace = wanted


def _require_same_name(obj: meta_v1.Resource, request: Request) -> None:
    if request.name and obj.metadata.name != request.name:
        if obj.metadata.name:
            raise errors.bad_request(
                f"the name of the object ({obj.metadata.name}) does not match the name on the URL ({request.name})"
            )
        obj.metadata.name = request.name


def _require_active_namespace(obj: meta_v1.Resource, strategy: Strategy[Any], request: Request) -> None:
    namespace = obj.metadata.namespace
    phase = request.lookups.namespace_phase(namespace)
    if phase is None:
        raise errors.not_found("namespaces", namespace)
    if phase == "Terminating":
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        refusal = errors.forbidden(strategy.resource, obj.metadata.name, why, group=strategy.group)
        cause = meta_v1.StatusCause(
            reason="NamespaceTerminating",
            message=f"namespace {namespace} is being terminated",
            field="metadata.namespace",
        )
        if refusal.status.details is not None:
            refusal.status.details.causes = [cause]
        raise refusal


def _set_system_metadata(obj: meta_v1.Resource, request: Request) -> None:
    metadata = obj.metadata
    metadata.creation_timestamp = times.to_seconds(request.now)
    metadata.uid = generate_uid()
    metadata.deletion_timestamp = None
    metadata.deletion_grace_period_seconds = None
    metadata.self_link = ""


def generate_uid() -> str:
    """Return a random UUID from a batch generated in advance: `uuid.uuid4` for each takes four times as long."""
    try:
        return _unused.pop()  # atomic
    except IndexError:
        first, *others = _generate_uids()
        _unused.extend(others)
        return first


_unused: list[str] = []
_VERSION_BYTES = bytes(0x40 | byte & 0x0F for byte in range(256))
_VARIANT_BYTES = bytes(0x80 | byte & 0x3F for byte in range(256))
"""The bytes of a UUID of version 4 that have its version and its variant, by the random byte."""
os.register_at_fork(after_in_child=_unused.clear)  # a child must not have the same chance as its parent


def _generate_uids() -> list[str]:
    """Return random UUIDs of version 4, without a loop in Python."""
    chance = bytearray(os.urandom(16 * _UIDS_AT_ONCE))
    chance[6::16] = chance[6::16].translate(_VERSION_BYTES)
    chance[8::16] = chance[8::16].translate(_VARIANT_BYTES)
    parts = struct.iter_unpack("8s4s4s4s12s", chance.hex().encode())
    return b" ".join(map(b"-".join, parts)).decode().split()


def generate_another_name(obj: meta_v1.Resource) -> None:
    """Give an admitted object another name from `generateName`, because its first one is taken."""
    taken, obj.metadata.name = obj.metadata.name, ""
    generate_name(obj.metadata)
    strategy_of(type(obj)).update_derived_names(obj, taken)


def create_from_template(template: T, row: Row) -> T:
    """Return a copy of an admitted batch template with one batch row's values, a new uid and, if needed, a name."""
    name = row.name or add_random_suffix(template.metadata.generate_name)
    return rows.fill_template(template, structs.replace(row, name=name, uid=generate_uid()))


def generate_name(metadata: meta_v1.ObjectMeta) -> None:
    """Set a random name that starts with `generateName`, if that is set and the object has no name."""
    if metadata.generate_name and not metadata.name:
        metadata.name = add_random_suffix(metadata.generate_name)


def add_random_suffix(base: str) -> str:
    """Return `base`, cut to fit the length limit of names, with a random suffix."""
    return base[:MAX_GENERATED_BASE] + _random_suffix()


def _random_suffix() -> str:
    chance = bytes.fromhex(generate_uid()[-10:])
    return "".join([_SUFFIX_ALPHABET[each % len(_SUFFIX_ALPHABET)] for each in chance])


def _keep_identity(new: meta_v1.Resource, old: meta_v1.Resource) -> None:
    metadata, stored = new.metadata, old.metadata
    metadata.generation = stored.generation
    metadata.self_link = ""
    metadata.creation_timestamp = metadata.creation_timestamp or stored.creation_timestamp
    metadata.uid = metadata.uid or stored.uid
    metadata.deletion_timestamp = metadata.deletion_timestamp or stored.deletion_timestamp
    if metadata.deletion_grace_period_seconds is None:
        metadata.deletion_grace_period_seconds = stored.deletion_grace_period_seconds


def _invalid(strategy: Strategy[Any], obj: meta_v1.Resource, problems: Errors) -> errors.Invalid:
    distinct = {_build_error_key(problem): problem for problem in reversed(problems)}
    return errors.invalid(strategy.kind, obj.metadata.name, [*distinct.values()][::-1], group=strategy.group)


def _build_error_key(problem: FieldError) -> tuple[object, ...]:
    """Return a key that is equal for repeated reports of one field error; large values are compared by identity."""
    value = problem.value
    if isinstance(value, list) and len(value) < 8 and all(isinstance(each, str) for each in value):
        value = tuple(value)
    elif not isinstance(value, str | int):
        value = id(value)
    return problem.type, problem.field, problem.detail, value


CLIENT_METADATA = ("labels", "annotations", "finalizers", "owner_references")
"""Metadata fields that an update of the main resource may change."""
_RESTORED = (*CLIENT_METADATA, "generate_name", "generation", "deletion_timestamp")
_restored_values = attrgetter(*_RESTORED)
_ORDINARY = frozenset({"labels", "annotations", "finalizers"})
_ORDINARY_STATUS = {
    "": (
        "namespaces nodes persistentvolumeclaims persistentvolumes pods replicationcontrollers resourcequotas services"
    ),
    "apiextensions.k8s.io": "customresourcedefinitions",
    "apps": "daemonsets replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "certificates.k8s.io": "certificatesigningrequests",
    "networking.k8s.io": "ingresses",
    "policy": "poddisruptionbudgets",
}
WRITABLE_METADATA: dict[tuple[str, str, str], frozenset[str]] = {
    **{
        (group, resource, "status"): _ORDINARY
        for group, resources in _ORDINARY_STATUS.items()
        for resource in resources.split()
    },
    ("", "namespaces", "finalize"): _ORDINARY,
    ("apps", "deployments", "status"): _ORDINARY - {"labels"},
    ("certificates.k8s.io", "certificatesigningrequests", "approval"): _ORDINARY,
}
"""By (group, resource, subresource), the metadata fields that it may change, as upstream; never owner references."""


def restore_metadata(new: Resource, old: Resource, group: str, resource: str, subresource: str) -> None:
    """Restore the old metadata in an update of a subresource, except the fields that this subresource may change."""
    if _restored_values(new.metadata) == _restored_values(old.metadata):
        return
    writable = WRITABLE_METADATA.get((group, resource, subresource), frozenset())
    for name in _RESTORED:
        stored = getattr(old.metadata, name)
        if name not in writable and getattr(new.metadata, name) != stored:
            setattr(new.metadata, name, copy_of(stored))
