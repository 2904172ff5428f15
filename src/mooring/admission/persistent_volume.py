"""Validate PersistentVolumes: one source, a capacity, and a node affinity with versions and CEL as in pods.

A stored affinity stays allowed when its gate is off, each gate independently (`build_node_affinity_rules`).
``storage.py`` uses `validate_volume_spec` for inline volumes.
"""

import posixpath
from collections.abc import Callable, Iterator
from typing import Any

from mooring.admission import checks
from mooring.admission import volume_sources as sources
from mooring.admission.expressions import ExpressionError
from mooring.admission.meta import IMMUTABLE
from mooring.admission.node_selector import NodeSelectorRules, validate_node_selector
from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.defaults import default_volume_source, round_to_milli
from mooring.admission.pod.rules import SEMVER_OPERATORS
from mooring.admission.pod.warnings import DEPRECATED_LABELS, RENAMED_LABELS, find_deprecated_sources
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names, times
from mooring.api.base import copy_of
from mooring.api.core_v1 import NodeSelectorTerm, PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus
from mooring.api.core_v1 import volume_source as vs
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

PROTECTION = "kubernetes.io/pv-protection"
VOLUME_MODES = ("Block", "Filesystem")
_NO_RECYCLING = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
)
_ONLY_IN_PODS = ("spec.flocker: ", "spec.quobyte: ")
"""Warnings about sources that Kubernetes deprecates only in pods."""
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
NOT_INLINE = "may not be specified in the context of inline volumes"
_SPEC = Path("spec")


class PersistentVolumeStrategy(Strategy[PersistentVolume]):
    has_generation = False

    def default(self, obj: PersistentVolume) -> None:
        obj.status.phase = obj.status.phase or "Pending"
        spec = obj.spec
        spec.persistent_volume_reclaim_policy = spec.persistent_volume_reclaim_policy or "Retain"
        default_volume_source(spec)
        spec.volume_mode = spec.volume_mode or "Filesystem"
        round_to_milli(spec.capacity)

    def mutate(self, obj: PersistentVolume, old: PersistentVolume | None, request: Request) -> None:
        """Add the finalizer `kubernetes.io/pv-protection` to a new PersistentVolume."""
        if old is None and PROTECTION not in obj.metadata.finalizers:
            obj.metadata.finalizers.append(PROTECTION)

    def prepare_for_create(self, obj: PersistentVolume, request: Request) -> None:
        obj.status = PersistentVolumeStatus(phase="Pending", last_phase_transition_time=times.to_seconds(request.now))

    def validate(self, obj: PersistentVolume, old: PersistentVolume | None, request: Request) -> Errors:
        affinity = build_node_affinity_rules(request.options, old.spec if old is not None else None)
        errors = validate_volume_spec(obj.spec, _SPEC, affinity)
        return (
            errors if old is None else errors + _validate_immutable_volume_fields(obj.spec, old.spec, request.options)
        )

    def warnings(self, new: PersistentVolume, old: PersistentVolume | None, request: Request) -> list[str]:
        policy, recycles = new.spec.persistent_volume_reclaim_policy, []
        if policy == "Recycle":
            recycles = [f"spec.persistentVolumeReclaimPolicy: {_NO_RECYCLING}"]
        return [
            *recycles,
            *(each for each in find_deprecated_sources(new.spec, Path("spec")) if not each.startswith(_ONLY_IN_PODS)),
            *(
                f"spec.nodeAffinity.required.nodeSelectorTerms[{index}].matchExpressions[{position}].key: "
                f"{requirement.key} is {DEPRECATED_LABELS[requirement.key]}"
                for index, term in enumerate(_node_affinity_terms(new.spec))
                for position, requirement in enumerate(term.match_expressions)
                if requirement.key in DEPRECATED_LABELS
            ),
        ]

    def prepare_status(self, new: PersistentVolume, old: PersistentVolume, request: Request) -> None:
        status, before = new.status, old.status.last_phase_transition_time
        if status.phase == old.status.phase:
            status.last_phase_transition_time = status.last_phase_transition_time or before
        elif status.last_phase_transition_time in (None, before):
            status.last_phase_transition_time = times.to_seconds(request.now)


def build_node_affinity_rules(options: AdmissionOptions, old: PersistentVolumeSpec | None) -> NodeSelectorRules:
    """Return which features a volume's node affinity may use: those of enabled gates, and those that `old` uses."""
    if old is None:
        return NodeSelectorRules(
            semver_operators=options.semver_operators,
            check_expression=options.expression_checks.new_node if options.cel else None,
        )
    stored = {expression for term in _node_affinity_terms(old) for expression in term.match_cel_expressions}
    requirements = [requirement for term in _node_affinity_terms(old) for requirement in term.match_expressions]

    def check_node_expression(expression: str) -> ExpressionError | None:
        checks = options.expression_checks
        return (checks.stored_node if expression in stored else checks.new_node)(expression)

    return NodeSelectorRules(
        semver_operators=options.semver_operators
        or any(requirement.operator in SEMVER_OPERATORS for requirement in requirements),
        check_expression=check_node_expression if options.cel or stored else None,
        invalid_label_values=any(
            names.label_value(value) for requirement in requirements for value in requirement.values
        ),
    )


def _node_affinity_terms(spec: PersistentVolumeSpec) -> Iterator[NodeSelectorTerm]:
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        yield from spec.node_affinity.required.node_selector_terms


def validate_volume_spec(
    spec: PersistentVolumeSpec, path: Path, affinity: NodeSelectorRules, *, inline: bool = False
) -> Errors:
    """Return the errors in a PersistentVolume's spec; `inline`: it is embedded in a VolumeAttachment."""
    errors = _validate_inline_volume(spec, path) if inline else []
    errors += validate_access_modes(spec.access_modes, path.child("accessModes"), "")
    policy = spec.persistent_volume_reclaim_policy
    if not inline:
        errors += _validate_capacity(spec, path.child("capacity"))
        errors += checks.optional_one_of(policy or None, RECLAIM_POLICIES, path.child("persistentVolumeReclaimPolicy"))
        if spec.node_affinity is not None:
            required, here = spec.node_affinity.required, path.child("nodeAffinity", "required")
            errors += checks.require(required is not None, here, "must specify required node constraints")
            errors += checks.optional(required, here, validate_node_selector, affinity)
    errors += _validate_volume_source(spec, path)
    if inline:
        return errors
    host_path = spec.host_path
    if host_path is not None and posixpath.normpath(host_path.path) == "/" and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(field_errors.forbidden(path.child("persistentVolumeReclaimPolicy"), detail))
    errors += validate_class_name(spec.storage_class_name, path.child("storageClassName"))
    errors += validate_volume_mode(spec.volume_mode, path.child("volumeMode"))
    name, here = spec.volume_attributes_class_name, path.child("volumeAttributesClassName")
    if name is not None:
        errors += checks.require(name, here, "an empty string is disallowed") + validate_class_name(name, here)
        detail = "has to be specified when using volumeAttributesClassName"
        errors += checks.require(spec.csi is not None, path.child("csi"), detail)
    return errors


def validate_access_modes(modes: list[str], path: Path, none_given: str) -> Errors:
    errors = [] if modes else [field_errors.required(path, none_given)]
    unknown = [mode for mode in modes if mode not in sources.ACCESS_MODES]
    errors += [field_errors.not_supported(path, mode, sources.ACCESS_MODES) for mode in unknown]
    if "ReadWriteOncePod" in modes and len(set(modes) & set(sources.ACCESS_MODES)) > 1:
        errors.append(field_errors.forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_class_name(name: str | None, path: Path) -> Errors:
    return names.validate(path, name, names.dns1123_subdomain(name)) if name else []


def validate_volume_mode(mode: str | None, path: Path) -> Errors:
    """Return an error for a volume mode that is not None, Block or Filesystem."""
    return [] if mode is None or mode in VOLUME_MODES else [field_errors.not_supported(path, mode, VOLUME_MODES)]


def _validate_inline_volume(spec: PersistentVolumeSpec, path: Path) -> Errors:
    given: dict[str, object] = {"claimRef": spec.claim_ref, "capacity": spec.capacity}
    given |= {"nodeAffinity": spec.node_affinity, "storageClassName": spec.storage_class_name}
    errors = [field_errors.forbidden(path.child(name), NOT_INLINE) for name, value in given.items() if value]
    if spec.persistent_volume_reclaim_policy not in ("", "Retain"):
        detail = "may only be Retain in the context of inline volumes"
        errors.append(field_errors.forbidden(path.child("persistentVolumeReclaimPolicy"), detail))
    detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
    errors += checks.forbidden_if(spec.volume_mode not in (None, "Filesystem"), path.child("volumeMode"), detail)
    detail = "has to be specified in the context of inline volumes"
    return errors + checks.require(spec.csi is not None, path.child("csi"), detail)


def _validate_capacity(spec: PersistentVolumeSpec, path: Path) -> Errors:
    capacity = spec.capacity
    errors = [] if capacity else [field_errors.required(path)]
    if set(capacity) != {"storage"}:
        errors.append(field_errors.not_supported(path, capacity or None, ["storage"]))
    for name, quantity in capacity.items():
        if quantity.value() < 0:
            errors.append(field_errors.invalid(path.key(name), quantity.value(), "must be a valid resource quantity"))
        if quantity.sign() <= 0:
            errors.append(field_errors.invalid(path.key(name), str(quantity), "must be greater than zero"))
    return errors


def _validate_immutable_volume_fields(
    new: PersistentVolumeSpec, old: PersistentVolumeSpec, options: AdmissionOptions
) -> Errors:
    detail = "spec.persistentvolumesource is immutable after creation"
    errors = checks.forbidden_if(
        _list_volume_sources(new, old) != _list_volume_sources(old), Path("spec.persistentvolumesource"), detail
    )
    errors += checks.invalid_if(new.volume_mode != old.volume_mode, Path("volumeMode"), new.volume_mode, IMMUTABLE)
    if not options.mutable_pv_node_affinity and old.node_affinity is not None and _changes_node_affinity(new, old):
        detail = f"{IMMUTABLE}, except for updating from beta label to GA"
        errors.append(field_errors.invalid(Path("nodeAffinity"), new.node_affinity, detail))
    if old.volume_attributes_class_name is not None and new.volume_attributes_class_name is None:
        detail = "update from non-nil value to nil is forbidden"
        errors.append(field_errors.forbidden(Path("spec.volumeAttributesClassName"), detail))
    return errors


def _list_volume_sources(spec: PersistentVolumeSpec, old: PersistentVolumeSpec | None = None) -> list[Any]:
    found = [source for _, source in checks.select_fields(spec, *_SOURCES)]
    if old is None or old.csi is None or old.csi.controller_expand_secret_ref is not None or spec.csi is None:
        return found
    csi = copy_of(spec.csi)
    csi.controller_expand_secret_ref = None
    return [csi if source is spec.csi else source for source in found]


def _changes_node_affinity(new: PersistentVolumeSpec, old: PersistentVolumeSpec) -> bool:
    if new.node_affinity == old.node_affinity:
        return False
    renamed = copy_of(old)
    for mine, theirs in zip(_node_affinity_terms(renamed), _node_affinity_terms(new), strict=False):
        for before, after in zip(mine.match_expressions, theirs.match_expressions, strict=False):
            if RENAMED_LABELS.get(before.key) == after.key:
                before.key = after.key
    return renamed.node_affinity != new.node_affinity


def _validate_volume_source(spec: PersistentVolumeSpec, path: Path) -> Errors:
    errors: Errors = []
    found = False
    for name, source in checks.select_fields(spec, *_SOURCES):
        if source is None:
            continue
        if found and name != "flexVolume":  # which Kubernetes does not count
            errors.append(field_errors.forbidden(path.child(sources.SURPLUS_NAMES.get(name, name)), sources.ONE_TYPE))
        else:
            here = path.child(sources.OWN_NAMES.get(name, name))
            errors += sources.validate_source(name, source, here)
            errors += _RULES[name](source, here) if name in _RULES else []
            if name == "local" and spec.node_affinity is None:
                errors.append(field_errors.required(path.child("nodeAffinity"), "Local volume requires node affinity"))
        found = True
    return errors + checks.require(found, path, "must specify a volume type")


def _validate_csi_source(source: vs.CSIPersistentVolumeSource, path: Path) -> Errors:
    errors = sources.validate_csi_driver_name(source.driver, path.child("driver"))
    errors += checks.require(source.volume_handle, path.child("volumeHandle"))
    for name, secret in checks.select_fields(source, *_CSI_SECRETS):
        if secret is not None:
            errors += checks.require_name(secret.name, path.child(name, "name"), names.dns1123_subdomain)
            errors += checks.require_name(secret.namespace, path.child(name, "namespace"), names.dns1123_label)
    return errors


def _validate_glusterfs_source(source: vs.GlusterfsPersistentVolumeSource, path: Path) -> Errors:
    here = path.child("endpointsNamespace")
    if source.endpoints_namespace == "":
        return [field_errors.invalid(here, "", "if the endpointnamespace is set, it must be a valid namespace name")]
    return checks.optional_name(source.endpoints_namespace, here, names.dns1123_label)


_CSI_SECRETS = (
    "controllerPublishSecretRef",
    "nodePublishSecretRef",
    "controllerExpandSecretRef",
    "nodeExpandSecretRef",
)
_RULES: dict[str, Callable[[Any, Path], Errors]] = {
    "glusterfs": _validate_glusterfs_source,
    "iscsi": lambda source, path: checks.require_fields(source.secret_ref, path.child("secretRef"), "name"),
    "azureFile": lambda source, path: checks.require(source.secret_namespace != "", path.child("secretNamespace")),
    "local": lambda source, path: sources.forbid_backsteps(source.path, path.child("path")),
    "csi": _validate_csi_source,
}
"""Rules of sources that only PersistentVolumes have, or that are stricter than in pods."""
_NAMES = (
    "hostPath gcePersistentDisk awsElasticBlockStore glusterfs flocker nfs rbd quobyte cephfs iscsi cinder fc "
    "flexVolume azureFile vsphereVolume photonPersistentDisk portworxVolume azureDisk scaleIO local storageos csi"
)
_SOURCES = tuple(_NAMES.split())
"""The volume sources in the order of Kubernetes' errors."""
