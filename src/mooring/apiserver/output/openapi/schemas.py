"""Build the OpenAPI schemas of API types from the structs, their docstrings and their merge annotations.

A `Schemas` collects all definitions to which its schemas refer. Names are those of Kubernetes
(`io.k8s.api.core.v1.Pod`), because clients look some of them up. A struct that serves several versions of a group gets
a definition for each. `Dialect` has the differences between OpenAPI v2 and v3: where definitions are, and how a
reference gets a description.
"""

from collections.abc import Iterable
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from mooring.api.base import Merge, Object, is_required, merge_of
from mooring.api.kinds import GroupVersion, Kind
from mooring.api.meta_v1 import ListMeta, ObjectMeta, Resource, ResourceList
from mooring.api.openapi_docs import descriptions
from mooring.api.quantity import Quantity
from mooring.apiserver.output.openapi import custom

Schema = dict[str, Any]
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_INT32 = 2**31 - 1
PATCH = f"{_META}.Patch"


class Dialect(Enum):
    """An OpenAPI version (2 or 3) and where its documents keep schemas."""

    V2 = "#/definitions/"
    V3 = "#/components/schemas/"

    def reference(self, name: str, description: str = "", *, default: bool = False) -> Schema:
        plain = {"$ref": self.value + name}
        if self is Dialect.V2:
            return {**plain, "description": description} if description else plain
        if not description and not default:
            return plain
        found: Schema = {"allOf": [plain]}
        if default:
            found["default"] = {}
        return {**found, "description": description} if description else found


class Schemas:
    """Collects the schemas of one OpenAPI document, built from the API types that it refers to."""

    def __init__(self, dialect: Dialect, kinds: Iterable[Kind]) -> None:
        self.definitions: dict[str, Schema] = {}
        self._dialect = dialect
        self._kinds: dict[tuple[str, type], list[Kind]] = {}
        for kind in kinds:
            if kind.custom:
                continue
            for shown in (kind.type, kind.list_type):
                if shown:
                    self._kinds.setdefault((self.name(shown, kind.group_version), shown), []).append(kind)

    def name(self, cls: type[Object], where: GroupVersion) -> str:
        """Return the name of a type's schema in the document, such as `io.k8s.api.core.v1.Pod`."""
        package, _, version = cls.__module__.removeprefix("mooring.api.").partition(".")[0].rpartition("_")
        if package == "meta":
            return f"{_META}.{cls.__name__}"
        if package == (where.group.partition(".")[0] or "core"):
            version = where.version
        return f"io.k8s.api.{package}.{version}.{cls.__name__}"

    def reference_type(
        self, cls: type[Object], where: GroupVersion, description: str = "", *, default: bool = False
    ) -> Schema:
        """Return a `$ref` to a type's schema, which is built and added to the document if it is missing."""
        name = self.name(cls, where)
        if name not in self.definitions:
            self.definitions[name] = {}  # for types that refer to themselves
            self.definitions[name] = self._build_definition(name, cls, where)
        return self._dialect.reference(name, description, default=default)

    def reference_custom_kind(self, kind: Kind, *, is_list: bool = False) -> Schema:
        """Return a `$ref` to the schema of a custom kind or of its list, which is added if missing."""
        name, v2 = custom.schema_name(kind, is_list=is_list), self._dialect is Dialect.V2
        if name not in self.definitions:
            about = descriptions(ResourceList if is_list else Resource)["metadata"]
            metadata = self.reference_type(ListMeta if is_list else ObjectMeta, kind.group_version, about)
            if is_list:
                item = self.reference_custom_kind(kind)
                self.definitions[name] = custom.build_list_definition(kind, item, metadata, v2=v2)
            else:
                self.definitions[name] = custom.build_definition(kind, metadata, v2=v2)
        return self._dialect.reference(name)

    def reference_patch(self) -> Schema:
        """Return a `$ref` to the schema of PATCH request bodies."""
        about = "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body."
        self.definitions.setdefault(PATCH, {"description": about, "type": "object"})
        return self._dialect.reference(PATCH)

    def _build_definition(self, name: str, cls: type[Object], where: GroupVersion) -> Schema:
        texts = descriptions(cls)
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for field in msgspec.structs.fields(cls):
            schema = self._build_field_schema(field, where, texts.get(field.name, ""))
            properties[field.encode_name] = schema
            if is_required(field):
                required.append(field.encode_name)
        found: Schema = {"description": cls.__doc__ or "", "type": "object"}
        if required:
            found["required"] = sorted(required)
        if properties:
            found["properties"] = dict(sorted(properties.items()))
        if cls.__merge__ and cls.__merge__.kind == "atomic":
            found["x-kubernetes-map-type"] = "atomic"
        if kinds := self._kinds.get((name, cls)):
            found["x-kubernetes-group-version-kind"] = [
                gvk(kind.group_version, kind.list_kind if cls is kind.list_type else kind.kind) for kind in kinds
            ]
        return found

    def _build_field_schema(self, field: msgspec.structs.FieldInfo, where: GroupVersion, description: str) -> Schema:
        always = field.default_factory is not msgspec.NODEFAULT
        schema = self._build_type_schema(field.type, where, description, default=always)
        merge = merge_of(field)
        kind = schema.get("type")
        if kind == "array":
            schema |= _list_type_keywords(merge)
        elif kind == "object" and merge and merge.kind == "atomic":
            schema["x-kubernetes-map-type"] = "atomic"
        if merge and merge.patch_key and kind == "array":
            schema["x-kubernetes-patch-merge-key"] = merge.patch_key
        if merge and merge.patch_strategies:
            schema["x-kubernetes-patch-strategy"] = ",".join(merge.patch_strategies)
        return schema

    def _build_type_schema(
        self, annotation: Any, where: GroupVersion, description: str = "", *, default: bool = False
    ) -> Schema:
        origin = get_origin(annotation)
        if origin is Annotated:
            base, *marks = get_args(annotation)
            return _with_int32_format(self._build_type_schema(base, where, description, default=default), marks)
        if origin in (Union, UnionType):
            options = [option for option in get_args(annotation) if option is not NoneType]
            if set(options) == {int, float}:
                return {"description": description, "type": "number", "format": "double"}
            if len(options) > 1 and any(isinstance(each, type) and issubclass(each, Object) for each in options):
                return {"description": description}
            if len(options) > 1:
                return self._reference_shared(_INT_OR_STRING, description)
            return self._build_type_schema(options[0], where, description)
        if isinstance(annotation, type) and issubclass(annotation, Object):
            return self.reference_type(annotation, where, description, default=default)
        if annotation is Quantity:
            return self._reference_shared(_QUANTITY, description)
        schema = self._builtin_schema(annotation, origin, where)
        return {"description": description, **schema} if description else schema

    def _builtin_schema(self, annotation: Any, origin: Any, where: GroupVersion) -> Schema:
        if origin is list:
            return {"type": "array", "items": self._build_item_schema(get_args(annotation)[0], where)}
        if origin is dict:
            return {"type": "object", "additionalProperties": self._build_item_schema(get_args(annotation)[1], where)}
        return dict(_PLAIN.get(annotation, {"type": "object"}))

    def _build_item_schema(self, annotation: Any, where: GroupVersion) -> Schema:
        schema = self._build_type_schema(annotation, where, default=True)
        if self._dialect is Dialect.V3 and schema.get("type") == "string":
            schema["default"] = ""
        return schema

    def _reference_shared(self, name: str, description: str) -> Schema:
        common, own = _SHARED[name]
        self.definitions.setdefault(name, {**common, **own[self._dialect]})
        return self._dialect.reference(name, description)


_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    bytes: {"type": "string", "format": "byte"},
}
_SHARED: dict[str, tuple[Schema, dict[Dialect, Schema]]] = {
    _QUANTITY: (
        {"description": 'A fixed-point number such as "100m", "1.5" or "2Gi"; the suffix says the unit.'},
        {Dialect.V2: {"type": "string"}, Dialect.V3: {"oneOf": [{"type": "string"}, {"type": "number"}]}},
    ),
    _INT_OR_STRING: (
        {"description": 'A number, or a string such as "25%".', "format": "int-or-string"},
        {Dialect.V2: {"type": "string"}, Dialect.V3: {"oneOf": [{"type": "integer"}, {"type": "string"}]}},
    ),
}
"""Definitions that all documents share: what both dialects have, and what one of them adds."""


def gvk(group_version: GroupVersion, kind: str) -> Schema:
    return {"group": group_version.group, "kind": kind, "version": group_version.version}


def _with_int32_format(schema: Schema, marks: Iterable[Any]) -> Schema:
    for mark in marks:
        if isinstance(mark, msgspec.Meta) and mark.le == _INT32 and schema.get("type") == "integer":
            return {**schema, "format": "int32"}
    return schema


def _list_type_keywords(merge: Merge | None) -> Schema:
    kind = merge.kind if merge else "atomic"
    if merge and kind == "map":
        return {"x-kubernetes-list-map-keys": [*merge.keys], "x-kubernetes-list-type": "map"}
    return {"x-kubernetes-list-type": "set" if kind == "set" else "atomic"}
