"""Validate a pod's volumes; ``admission/volume_sources.py`` has the rules that PersistentVolumes share."""

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.admission import checks, meta
from mooring.admission import volume_sources as sources
from mooring.admission.certificates import validate_signer_name
from mooring.admission.persistent_volume_claim import validate_claim_spec
from mooring.admission.pod.environment import validate_field_ref, validate_resource_field_ref
from mooring.admission.pod.rules import PodRules
from mooring.api import field_errors, label_selector, names
from mooring.api.core_v1 import ConfigMapVolumeSource, SecretVolumeSource, Volume
from mooring.api.core_v1 import pod_volume as pv
from mooring.api.core_v1 import volume_source as vs
from mooring.api.core_v1.volume import PersistentVolumeClaimTemplate
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta

_DOWNWARD_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_CLAIM_METADATA = ("labels", "annotations")


class _VolumeContext(msgspec.Struct, frozen=True):
    path: Path
    volume: str
    pod: str
    """The name of the pod; empty for pod templates."""
    rules: PodRules


def validate_volumes(
    volumes: list[Volume], metadata: ObjectMeta | None, path: Path, rules: PodRules
) -> tuple[dict[str, Volume], Errors]:
    """Return a pod's valid volumes by name, and the errors of the others. Containers may mount only the valid ones."""
    pod = metadata.name if metadata is not None else ""
    created = {f"{pod}-{volume.name}" for volume in volumes if pod and volume.ephemeral is not None}
    usable: dict[str, Volume] = {}
    errors: Errors = []
    for index, volume in enumerate(volumes):
        here = path.index(index)
        found = _validate_volume_source(volume, here, _VolumeContext(here, volume.name, pod, rules))
        if not volume.name:
            found.append(field_errors.required(here.child("name")))
        elif wrong := names.dns1123_label(volume.name):
            found += names.validate(here.child("name"), volume.name, wrong)
        if volume.name in usable:
            found.append(field_errors.duplicate(here.child("name"), volume.name))
        if not found:
            usable[volume.name] = volume
        errors += found
        claim = volume.persistent_volume_claim
        if claim is not None and claim.claim_name in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            claim_path = here.child("persistentVolumeClaim", "claimName")
            errors.append(field_errors.invalid(claim_path, claim.claim_name, detail))
    return usable, errors


def _validate_volume_source(volume: Volume, path: Path, context: _VolumeContext) -> Errors:
    sources_by_name = zip(_SOURCE_NAMES, msgspec.structs.astuple(volume)[1:], strict=True)
    given = {name: source for name, source in sources_by_name if source is not None}
    errors = checks.require(given, path, "must specify a volume type")
    for place, name in enumerate(given if len(given) == 1 else [name for name in _ORDER if name in given]):
        if place:
            errors.append(field_errors.forbidden(path.child(sources.SURPLUS_NAMES.get(name, name)), sources.ONE_TYPE))
            continue
        here, source = path.child(sources.OWN_NAMES.get(name, name)), given[name]
        errors += sources.validate_source(name, source, here)
        if name in _RULES:
            errors += _RULES[name](source, here)
        elif name in _CONTEXT_RULES:
            errors += _CONTEXT_RULES[name](source, here, context)
    return errors + checks.optional(volume.iscsi, path, _validate_iscsi_name, context)


def _validate_empty_dir_volume(source: pv.EmptyDirVolumeSource, path: Path) -> Errors:
    is_negative = source.size_limit is not None and source.size_limit.sign() < 0
    detail = "SizeLimit field must be a valid resource quantity"
    return checks.forbidden_if(is_negative, path.child("sizeLimit"), detail)


def _validate_keyed_volume(source: SecretVolumeSource | ConfigMapVolumeSource, path: Path) -> Errors:
    errors = sources.validate_file_mode(source.default_mode, path.child("defaultMode"))
    return errors + checks.validate_items(source.items, path.child("items"), _validate_key_to_path)


def _validate_key_to_path(item: pv.KeyToPath, path: Path) -> Errors:
    errors = checks.require_fields(item, path, "key", "path")
    errors += sources.validate_non_reserved_path(item.path, path.child("path"))
    return errors + sources.validate_file_mode(item.mode, path.child("mode"))


def _validate_downward_api_volume(source: pv.DownwardAPIVolumeSource, path: Path) -> Errors:
    errors = sources.validate_file_mode(source.default_mode, path.child("defaultMode"))
    for file in source.items:
        errors += _validate_downward_file(file, path)
    return errors


def _validate_downward_file(file: pv.DownwardAPIVolumeFile, path: Path) -> Errors:
    errors = checks.require_fields(file, path, "path")
    errors += sources.validate_non_reserved_path(file.path, path.child("path"))
    if file.field_ref is not None:
        errors += validate_field_ref(file.field_ref, path.child("fieldRef"), _DOWNWARD_FIELDS)
        if file.resource_field_ref is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(field_errors.invalid(path, "resource", detail))
    elif file.resource_field_ref is not None:
        errors += validate_resource_field_ref(file.resource_field_ref, path.child("resourceFieldRef"), in_volume=True)
    else:
        errors.append(field_errors.required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + sources.validate_file_mode(file.mode, path.child("mode"))


def _validate_csi_volume(source: vs.CSIVolumeSource, path: Path) -> Errors:
    errors = sources.validate_csi_driver_name(source.driver, path.child("driver"))
    secret = source.node_publish_secret_ref
    if secret is not None:
        if not secret.name:
            errors.append(field_errors.required(path.child("nodePublishSecretRef", "name")))
        else:
            errors += names.validate(path.child("name"), secret.name, names.dns1123_subdomain(secret.name))
    return errors


def _validate_ephemeral_volume(source: pv.EphemeralVolumeSource, path: Path, context: _VolumeContext) -> Errors:
    if source.volume_claim_template is None:
        errors = [field_errors.required(path.child("volumeClaimTemplate"))]
    else:
        errors = _validate_claim_template(source.volume_claim_template, path.child("volumeClaimTemplate"))
    if context.pod and context.volume:
        claim = f"{context.pod}-{context.volume}"
        for message in names.dns1123_subdomain(claim):
            detail = f'PVC name "{claim}": {message}'
            errors.append(field_errors.invalid(context.path.child("name"), context.volume, detail))
    return errors


def _validate_claim_template(template: PersistentVolumeClaimTemplate, path: Path) -> Errors:
    metadata = template.metadata
    errors = meta.validate_annotations(metadata.annotations, path.child("metadata", "annotations"))
    errors += names.validate_labels(metadata.labels, path.child("metadata", "labels"))
    errors += sources.forbid_other_fields(metadata, _CLAIM_METADATA, path.child("metadata"), "cannot be set")
    return errors + validate_claim_spec(template.spec, path.child("spec"))


def _validate_image_volume(source: pv.ImageVolumeSource, path: Path, context: _VolumeContext) -> Errors:
    errors = checks.require_fields(source, path, "reference") if context.rules.is_pod else []
    return errors + sources.validate_pull_policy(source.pull_policy, path.child("pullPolicy"))


def _validate_projected_volume(source: pv.ProjectedVolumeSource, path: Path, context: _VolumeContext) -> Errors:
    errors = sources.validate_file_mode(source.default_mode, path.child("defaultMode"))
    paths: set[str] = set()
    for index, projection in enumerate(source.sources):
        here = path.child("sources").index(index)
        given = [name for name in projection.__struct_fields__ if getattr(projection, name) is not None]
        errors += _validate_volume_projection(projection, path, here, paths, context)
        if len(given) > 1:
            errors.append(field_errors.forbidden(here, "may not specify more than 1 volume type per source"))
    return errors


def _validate_volume_projection(
    projection: pv.VolumeProjection, volume: Path, path: Path, paths: set[str], context: _VolumeContext
) -> Errors:
    errors: Errors = []
    for name, keyed in (("secret", projection.secret), ("configMap", projection.config_map)):
        if keyed is not None:
            errors += checks.require_fields(keyed, path.child(name), "name")
            for index, item in enumerate(keyed.items):
                errors += _validate_key_to_path(item, path.child(name, "items").index(index))
                errors += _validate_unique_file_path(item.path, keyed.name, volume, paths)
    if projection.downward_api is not None:
        for file in projection.downward_api.items:
            errors += _validate_downward_file(file, path.child("downwardAPI"))
            errors += _validate_unique_file_path(file.path, file.path, volume, paths)
    if projection.service_account_token is not None:
        errors += _validate_token_projection(
            projection.service_account_token, path.child("serviceAccountToken"), volume, context
        )
    if projection.cluster_trust_bundle is not None:
        bundle = projection.cluster_trust_bundle
        errors += _validate_trust_bundle_projection(bundle, path.child("clusterTrustBundle"))
        errors += _validate_unique_file_path(bundle.path, bundle.path, volume, paths)
    if projection.pod_certificate is not None:
        errors += _validate_certificate_projection(
            projection.pod_certificate, path.child("podCertificate"), volume, paths
        )
    return errors


def _validate_unique_file_path(file: str, shown: str, path: Path, paths: set[str]) -> Errors:
    if not file:
        return []
    if file in paths:
        return [field_errors.invalid(path, shown, "conflicting duplicate paths")]
    paths.add(file)
    return []


def _validate_token_projection(
    token: pv.ServiceAccountTokenProjection, path: Path, volume: Path, context: _VolumeContext
) -> Errors:
    errors = checks.validate_token_lifetime(token.expiration_seconds or 0, path.child("expirationSeconds"))
    if not token.path:
        errors.append(field_errors.required(volume.child("path")))
    elif not context.rules.nonlocal_token_paths:
        errors += sources.validate_non_reserved_path(token.path, volume.child("path"))
    return errors


def _validate_trust_bundle_projection(bundle: pv.ClusterTrustBundleProjection, path: Path) -> Errors:
    errors: Errors = []
    if bundle.name is not None and bundle.signer_name is not None:
        errors.append(field_errors.invalid(path, bundle, "only one of name and signerName may be used"))
    elif bundle.name is not None:
        errors += checks.require(bundle.name, path.child("name"), "must be a valid object name")
        for message in names.dns1123_subdomain(bundle.name.rpartition(":")[2]):
            detail = f"not a valid clustertrustbundlename: {message}"
            errors.append(field_errors.invalid(path.child("name"), bundle.name, detail))
        if bundle.label_selector is not None:
            detail = "labelSelector must be unset if name is specified"
            errors.append(field_errors.invalid(path.child("labelSelector"), bundle.label_selector, detail))
    elif bundle.signer_name is not None:
        if not bundle.signer_name:
            errors.append(field_errors.required(path.child("signerName"), "must be a valid signer name"))
        else:
            errors += validate_signer_name(bundle.signer_name, path.child("signerName"))
        errors += label_selector.validate(bundle.label_selector, path.child("labelSelector"))
    else:
        errors.append(field_errors.required(path, "either name or signerName must be specified"))
    errors += checks.require(bundle.path, path.child("path"))
    return errors + sources.validate_non_reserved_path(bundle.path, path.child("path"))


_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")


def _validate_certificate_projection(
    certificate: pv.PodCertificateProjection, path: Path, volume: Path, paths: set[str]
) -> Errors:
    errors = validate_signer_name(certificate.signer_name, path.child("signerName"))
    errors += meta.validate_annotations(certificate.user_annotations, path.child("userAnnotations"), need_domain=True)
    errors += checks.one_of(certificate.key_type, _KEY_TYPES, path.child("keyType"))
    errors += _validate_certificate_lifetime(certificate, path.child("maxExpirationSeconds"))
    files = {
        "credentialBundlePath": certificate.credential_bundle_path,
        "keyPath": certificate.key_path,
        "certificateChainPath": certificate.certificate_chain_path,
    }
    if not any(files.values()):
        detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(field_errors.required(path, detail))
    for name, file in files.items():
        errors += sources.validate_non_reserved_path(file, path.child(name))
        errors += _validate_unique_file_path(file, file, volume, paths)
    return errors


def _validate_certificate_lifetime(certificate: pv.PodCertificateProjection, path: Path) -> Errors:
    seconds = certificate.max_expiration_seconds
    if seconds is None:
        return []
    host = certificate.signer_name.partition("/")[0]
    longest = 1 if host == "kubernetes.io" or host.endswith(".kubernetes.io") else 91
    if seconds < 3600:
        return [field_errors.invalid(path, seconds, "if provided, maxExpirationSeconds must be >= 3600")]
    if seconds > longest * 86400:
        return [field_errors.invalid(path, seconds, f"if provided, maxExpirationSeconds must be <= {longest * 86400}")]
    return []


def _validate_iscsi_name(source: vs.ISCSIVolumeSource, path: Path, context: _VolumeContext) -> Errors:
    if source.initiator_name is None or len(f"{context.volume}:{source.target_portal}") <= 64:
        return []
    detail = (
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
        "if iscsi.initiatorName is specified."
    )
    return [field_errors.invalid(path.child("name"), context.volume, detail)]


_SOURCE_NAMES = Volume.__struct_encode_fields__[1:]  # without `name`
_RULES: dict[str, Callable[[Any, Path], Errors]] = {
    "configMap": _validate_keyed_volume,
    "csi": _validate_csi_volume,
    "downwardAPI": _validate_downward_api_volume,
    "emptyDir": _validate_empty_dir_volume,
    "gitRepo": lambda source, path: sources.validate_local_path(source.directory, path.child("directory")),
    "secret": _validate_keyed_volume,
}
_CONTEXT_RULES: dict[str, Callable[[Any, Path, _VolumeContext], Errors]] = {
    "ephemeral": _validate_ephemeral_volume,
    "image": _validate_image_volume,
    "projected": _validate_projected_volume,
}
_SOURCES = (
    "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker "
    "persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap azureFile vsphereVolume "
    "photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image"
)
_ORDER = tuple(_SOURCES.split())
"""The volume sources in the order of Kubernetes' errors."""
