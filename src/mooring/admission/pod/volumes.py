"""Validate a pod's volumes. Each source has a small function; `_SOURCES` lists them in Kubernetes' order.

Sources shared with PersistentVolumes are in ``admission/volume_sources.py``.
"""

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
_NAME_AND_SOURCE = 2
_CLAIM_METADATA = ("labels", "annotations")


class _Context(msgspec.Struct, frozen=True):
    path: Path
    volume: str
    pod: str
    """The name of the pod; empty for pod templates."""
    rules: PodRules


def validate_volumes(
    volumes: list[Volume], metadata: ObjectMeta | None, path: Path, rules: PodRules
) -> tuple[dict[str, Volume], Errors]:
    """Validate volumes; return those that containers can mount, by name, and the errors."""
    pod = metadata.name if metadata is not None else ""
    created = {f"{pod}-{volume.name}" for volume in volumes if pod and volume.ephemeral is not None}
    usable: dict[str, Volume] = {}
    errors: Errors = []
    for index, volume in enumerate(volumes):
        here = path.index(index)
        found = _validate_source(volume, here, _Context(here, volume.name, pod, rules))
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


def _validate_source(volume: Volume, path: Path, context: _Context) -> Errors:
    given = {
        attribute
        for attribute, source in zip(volume.__struct_fields__, msgspec.structs.astuple(volume), strict=True)
        if source is not None
    }
    errors: Errors = []
    found = False
    for attribute in given if len(given) == _NAME_AND_SOURCE else _SOURCES:
        if attribute not in given or attribute == "name":
            continue
        shown, name, check = _SOURCES[attribute]
        if found:
            errors.append(field_errors.forbidden(path.child(shown), sources.ONE_TYPE))
        else:
            errors += check(getattr(volume, attribute), path.child(name), context)
        found = True
    errors += checks.require(found, path, "must specify a volume type")
    if volume.iscsi is not None:
        errors += _validate_iscsi_name(volume.iscsi, path, context)
    return errors


def _validate_empty_dir(source: pv.EmptyDirVolumeSource, path: Path, _: _Context) -> Errors:
    if source.size_limit is not None and source.size_limit.sign() < 0:
        return [field_errors.forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity")]
    return []


def _validate_git_repo(source: pv.GitRepoVolumeSource, path: Path, _: _Context) -> Errors:
    return checks.required_fields(source, path, "repository") + sources.local_path(
        source.directory, path.child("directory")
    )


def _validate_secret(source: SecretVolumeSource, path: Path, _: _Context) -> Errors:
    return checks.required_fields(source, path, "secretName") + _validate_files(source.default_mode, source.items, path)


def _validate_config_map(source: ConfigMapVolumeSource, path: Path, _: _Context) -> Errors:
    return checks.required_fields(source, path, "name") + _validate_files(source.default_mode, source.items, path)


def _validate_files(mode: int | None, items: list[pv.KeyToPath], path: Path) -> Errors:
    errors = sources.file_mode(mode, path.child("defaultMode"))
    for index, item in enumerate(items):
        errors += _validate_key_to_path(item, path.child("items").index(index))
    return errors


def _validate_key_to_path(item: pv.KeyToPath, path: Path) -> Errors:
    errors = checks.required_fields(item, path, "key", "path")
    errors += sources.non_reserved_path(item.path, path.child("path"))
    return errors + sources.file_mode(item.mode, path.child("mode"))


def _validate_claim(source: pv.PersistentVolumeClaimVolumeSource, path: Path, _: _Context) -> Errors:
    return checks.required_fields(source, path, "claimName")


def _validate_downward_api(source: pv.DownwardAPIVolumeSource, path: Path, _: _Context) -> Errors:
    errors = sources.file_mode(source.default_mode, path.child("defaultMode"))
    for file in source.items:
        errors += _validate_downward_file(file, path)
    return errors


def _validate_downward_file(file: pv.DownwardAPIVolumeFile, path: Path) -> Errors:
    errors = checks.required_fields(file, path, "path")
    errors += sources.non_reserved_path(file.path, path.child("path"))
    if file.field_ref is not None:
        errors += validate_field_ref(file.field_ref, path.child("fieldRef"), _DOWNWARD_FIELDS)
        if file.resource_field_ref is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(field_errors.invalid(path, "resource", detail))
    elif file.resource_field_ref is not None:
        errors += validate_resource_field_ref(file.resource_field_ref, path.child("resourceFieldRef"), in_volume=True)
    else:
        errors.append(field_errors.required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + sources.file_mode(file.mode, path.child("mode"))


def _validate_csi(source: vs.CSIVolumeSource, path: Path, _: _Context) -> Errors:
    errors = sources.validate_csi_driver_name(source.driver, path.child("driver"))
    secret = source.node_publish_secret_ref
    if secret is not None:
        if not secret.name:
            errors.append(field_errors.required(path.child("nodePublishSecretRef", "name")))
        else:
            errors += names.validate(path.child("name"), secret.name, names.dns1123_subdomain(secret.name))
    return errors


def _validate_ephemeral(source: pv.EphemeralVolumeSource, path: Path, context: _Context) -> Errors:
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


def _validate_image(source: pv.ImageVolumeSource, path: Path, context: _Context) -> Errors:
    errors = checks.required_fields(source, path, "reference") if context.rules.is_pod else []
    return errors + sources.pull_policy(source.pull_policy, path.child("pullPolicy"))


def _validate_projected(source: pv.ProjectedVolumeSource, path: Path, context: _Context) -> Errors:
    errors = sources.file_mode(source.default_mode, path.child("defaultMode"))
    paths: set[str] = set()
    for index, projection in enumerate(source.sources):
        here = path.child("sources").index(index)
        given = [name for name in projection.__struct_fields__ if getattr(projection, name) is not None]
        errors += _validate_projection(projection, path, here, paths, context)
        if len(given) > 1:
            errors.append(field_errors.forbidden(here, "may not specify more than 1 volume type per source"))
    return errors


def _validate_projection(
    projection: pv.VolumeProjection, volume: Path, path: Path, paths: set[str], context: _Context
) -> Errors:
    errors: Errors = []
    for name, keyed in (("secret", projection.secret), ("configMap", projection.config_map)):
        if keyed is not None:
            errors += checks.required_fields(keyed, path.child(name), "name")
            for index, item in enumerate(keyed.items):
                errors += _validate_key_to_path(item, path.child(name, "items").index(index))
                errors += _validate_unique(item.path, keyed.name, volume, paths)
    if projection.downward_api is not None:
        for file in projection.downward_api.items:
            errors += _validate_downward_file(file, path.child("downwardAPI"))
            errors += _validate_unique(file.path, file.path, volume, paths)
    if projection.service_account_token is not None:
        errors += _validate_token(projection.service_account_token, path.child("serviceAccountToken"), volume, context)
    if projection.cluster_trust_bundle is not None:
        bundle = projection.cluster_trust_bundle
        errors += _validate_trust_bundle(bundle, path.child("clusterTrustBundle"))
        errors += _validate_unique(bundle.path, bundle.path, volume, paths)
    if projection.pod_certificate is not None:
        errors += _validate_certificate(projection.pod_certificate, path.child("podCertificate"), volume, paths)
    return errors


def _validate_unique(file: str, shown: str, path: Path, paths: set[str]) -> Errors:
    if not file:
        return []
    if file in paths:
        return [field_errors.invalid(path, shown, "conflicting duplicate paths")]
    paths.add(file)
    return []


def _validate_token(token: pv.ServiceAccountTokenProjection, path: Path, volume: Path, context: _Context) -> Errors:
    errors = checks.token_lifetime(token.expiration_seconds or 0, path.child("expirationSeconds"))
    if not token.path:
        errors.append(field_errors.required(volume.child("path")))
    elif not context.rules.nonlocal_token_paths:
        errors += sources.non_reserved_path(token.path, volume.child("path"))
    return errors


def _validate_trust_bundle(bundle: pv.ClusterTrustBundleProjection, path: Path) -> Errors:
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
    return errors + sources.non_reserved_path(bundle.path, path.child("path"))


_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")


def _validate_certificate(
    certificate: pv.PodCertificateProjection, path: Path, volume: Path, paths: set[str]
) -> Errors:
    errors = validate_signer_name(certificate.signer_name, path.child("signerName"))
    errors += meta.validate_annotations(certificate.user_annotations, path.child("userAnnotations"), need_domain=True)
    errors += checks.one_of(certificate.key_type, _KEY_TYPES, path.child("keyType"))
    errors += _validate_certificate_life(certificate, path.child("maxExpirationSeconds"))
    files = {
        "credentialBundlePath": certificate.credential_bundle_path,
        "keyPath": certificate.key_path,
        "certificateChainPath": certificate.certificate_chain_path,
    }
    if not any(files.values()):
        detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(field_errors.required(path, detail))
    for name, file in files.items():
        errors += sources.non_reserved_path(file, path.child(name))
        errors += _validate_unique(file, file, volume, paths)
    return errors


def _validate_certificate_life(certificate: pv.PodCertificateProjection, path: Path) -> Errors:
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


def _validate_iscsi_name(source: vs.ISCSIVolumeSource, path: Path, context: _Context) -> Errors:
    if source.initiator_name is None or len(f"{context.volume}:{source.target_portal}") <= 64:
        return []
    detail = (
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
        "if iscsi.initiatorName is specified."
    )
    return [field_errors.invalid(path.child("name"), context.volume, detail)]


def _validate_cinder(source: vs.CinderVolumeSource, path: Path, _: _Context) -> Errors:
    errors = checks.required_fields(source, path, "volumeID")
    return errors + checks.required_fields(source.secret_ref, path.child("secretRef"), "name")


def _validate_storage_os(source: vs.StorageOSVolumeSource, path: Path, _: _Context) -> Errors:
    errors = checks.required_fields(source, path, "volumeName")
    for name, value in (("volumeName", source.volume_name), ("volumeNamespace", source.volume_namespace)):
        errors += checks.optional_name(value or None, path.child(name), names.dns1123_label)
    return errors + checks.required_fields(source.secret_ref, path.child("secretRef"), "name")


_Check = Callable[[Any, Path, _Context], Errors]


def _require_fields(*fields: str) -> _Check:
    return lambda source, path, _: checks.required_fields(source, path, *fields)


def _without_context(check: Callable[[Any, Path], Errors]) -> _Check:
    return lambda source, path, _: check(source, path)


# By attribute: the name in "more than one" errors, the name in the source's own errors, and the check. The order, and
# the inconsistent names, are Kubernetes'.
_SOURCES: dict[str, tuple[str, str, _Check]] = {
    "empty_dir": ("emptyDir", "emptyDir", _validate_empty_dir),
    "host_path": ("hostPath", "hostPath", _without_context(sources.validate_host_path)),
    "git_repo": ("gitRepo", "gitRepo", _validate_git_repo),
    "gce_persistent_disk": ("gcePersistentDisk", "persistentDisk", _without_context(sources.validate_gce)),
    "aws_elastic_block_store": ("awsElasticBlockStore", "awsElasticBlockStore", _without_context(sources.validate_aws)),
    "secret": ("secret", "secret", _validate_secret),
    "nfs": ("nfs", "nfs", _without_context(sources.validate_nfs)),
    "iscsi": ("iscsi", "iscsi", _without_context(sources.validate_iscsi)),
    "glusterfs": ("glusterfs", "glusterfs", _require_fields("endpoints", "path")),
    "flocker": ("flocker", "flocker", _without_context(sources.validate_flocker)),
    "persistent_volume_claim": ("persistentVolumeClaim", "persistentVolumeClaim", _validate_claim),
    "rbd": ("rbd", "rbd", _require_fields("monitors", "image")),
    "cinder": ("cinder", "cinder", _validate_cinder),
    "cephfs": ("cephFS", "cephfs", _require_fields("monitors")),
    "quobyte": ("quobyte", "quobyte", _without_context(sources.validate_quobyte)),
    "downward_api": ("downwarAPI", "downwardAPI", _validate_downward_api),
    "fc": ("fc", "fc", _without_context(sources.validate_fc)),
    "flex_volume": ("flexVolume", "flexVolume", _without_context(sources.validate_flex)),
    "config_map": ("configMap", "configMap", _validate_config_map),
    "azure_file": ("azureFile", "azureFile", _require_fields("secretName", "shareName")),
    "vsphere_volume": ("vsphereVolume", "vsphereVolume", _require_fields("volumePath")),
    "photon_persistent_disk": ("photonPersistentDisk", "photonPersistentDisk", _require_fields("pdID")),
    "portworx_volume": ("portworxVolume", "portworxVolume", _require_fields("volumeID")),
    "azure_disk": ("azureDisk", "azureDisk", _without_context(sources.validate_azure_disk)),
    "storageos": ("storageos", "storageos", _validate_storage_os),
    "projected": ("projected", "projected", _validate_projected),
    "scale_io": ("scaleIO", "scaleIO", _require_fields("gateway", "system", "volumeName")),
    "csi": ("csi", "csi", _validate_csi),
    "ephemeral": ("ephemeral", "ephemeral", _validate_ephemeral),
    "image": ("image", "image", _validate_image),
}
