"""Build the scheme's kinds for a CustomResourceDefinition: one per version, with a type of its own.

Used by the API server for the definitions that it serves, and by controllers and clients, which need only metadata and
no schema. `Scheme.register` registers the result. Read next: ``dynamic.py``.
"""

import msgspec

from mooring.api.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps
from mooring.api.dynamic import dynamic_type
from mooring.api.kinds import SCALE, STATUS, CustomKindInfo, Kind, Subresource
from mooring.api.structural import NOTHING, Structural


class CustomKinds(msgspec.Struct, frozen=True):
    """All versions of a custom kind, and its storage version."""

    versions: tuple[Kind, ...]
    storage: Kind


def kinds_of(definition: CustomResourceDefinition, *, revision: int = 0, metadata_only: bool = False) -> CustomKinds:
    """Build a `Kind` for each version of a CustomResourceDefinition, under its accepted names."""
    versions = tuple(_kind(definition, version, revision, metadata_only) for version in definition.spec.versions)
    storage = next(kind for kind in versions if kind.custom and kind.custom.version.storage)
    return CustomKinds(versions, storage)


def _kind(
    definition: CustomResourceDefinition, version: CustomResourceDefinitionVersion, revision: int, metadata_only: bool
) -> Kind:
    names = definition.status.accepted_names
    schema = NOTHING if metadata_only else _schema(version)
    return Kind(
        definition.spec.group,
        version.name,
        names.kind,
        dynamic_type(names.kind, schema, keeps_content=not metadata_only),
        plural=names.plural,
        namespaced=definition.spec.scope == "Namespaced",
        short_names=tuple(names.short_names),
        categories=tuple(names.categories),
        subresources=_subresources(version),
        custom=CustomKindInfo(names.singular, names.list_kind, definition, version, revision),
    )


def _schema(version: CustomResourceDefinitionVersion) -> Structural:
    props = version.schema.open_api_v3_schema if version.schema else None
    return Structural(props or JSONSchemaProps(preserve_unknown_fields=True), root=True)


def _subresources(version: CustomResourceDefinitionVersion) -> tuple[Subresource, ...]:
    given = version.subresources
    if given is None:
        return ()
    status = (STATUS,) if given.status is not None else ()
    return (*status, SCALE) if given.scale is not None else status
