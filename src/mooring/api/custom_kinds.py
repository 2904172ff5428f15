"""Build the scheme's kinds for a CustomResourceDefinition: one per version, with a type of its own.

Used by the API server for the definitions that it serves, and by controllers and clients, which need only metadata and
no schema. `Scheme.register` registers the result. Read next: ``dynamic.py``.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import structs

from mooring.api.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps
from mooring.api.base import copy_of
from mooring.api.dynamic import Dynamic, dynamic_type, normalize
from mooring.api.kinds import SCALE, STATUS, CustomKindInfo, Kind, Subresource
from mooring.api.structural import NOTHING, Structural

Converter = Callable[[Any, Kind], Any]


class CustomKinds(msgspec.Struct, frozen=True):
    """All versions of a custom kind, and its storage version."""

    versions: tuple[Kind, ...]
    storage: Kind


def convert_version(obj: Dynamic, target: Kind) -> Dynamic:
    """Convert an object to another version: the same fields, as far as the target's schema has them."""
    made = _type_of(target)(
        kind=target.kind,
        api_version=target.api_version,
        metadata=structs.replace(obj.metadata),
        content=copy_of(obj.content),
    )
    return normalize(made)


def kinds_of(
    definition: CustomResourceDefinition,
    *,
    revision: int = 0,
    converter: Converter = convert_version,
    metadata_only: bool = False,
) -> CustomKinds:
    """Build a `Kind` for each version of a CustomResourceDefinition, under its accepted names."""
    versions = tuple(
        _kind(definition, version, revision, converter, metadata_only) for version in definition.spec.versions
    )
    storage = next(kind for kind in versions if kind.custom and kind.custom.version.storage)
    return CustomKinds(versions, storage)


def _kind(
    definition: CustomResourceDefinition,
    version: CustomResourceDefinitionVersion,
    revision: int,
    converter: Converter,
    metadata_only: bool,
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
        custom=CustomKindInfo(names.singular, names.list_kind, definition, version, converter, revision),
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


def _type_of(kind: Kind) -> type[Dynamic]:
    if not issubclass(kind.type, Dynamic):
        raise TypeError(f"{kind.api_version} {kind.kind} is no custom kind")
    return kind.type
