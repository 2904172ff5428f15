"""Every API type against the model of the official Kubernetes client, which is generated from Kubernetes' OpenAPI.

The walk starts from the classes of each ``mooring.api.<group>_<version>`` module and follows their fields, so that a
new module or field is checked without being named here. What Mooring has and Kubernetes lacks is listed below.
"""

import importlib
import pkgutil
import re
import types
import typing
from functools import cache
from typing import Any, get_args, get_origin

import msgspec
import pytest
from kubernetes.client import models

import mooring.api
from mooring.api.apiextensions_v1 import CustomResourceSubresourceStatus, JSONSchemaProps
from mooring.api.base import Object, is_required
from mooring.api.openapi_docs import descriptions
from mooring.api.quantity import Quantity

GROUP_VERSION = re.compile(r"([a-z]+)_(v\d+(?:(?:alpha|beta)\d+)?)")

OURS_ALONE = {
    "core_v1.Toleration.expression",  # KEP-5500
    "core_v1.NodeSelectorTerm.matchCELExpressions",  # KEP-5500
    "meta_v1.VersionInfo.binaryMajor",  # KEP-4330
    "meta_v1.VersionInfo.binaryMinor",  # KEP-4330
}

BASES = {"DeviceProperties", "RequestedDevices", "SliceProperties", "Webhook"}
"""The fields that several types share: of the versions of resource.k8s.io, and of admission webhooks."""
WITHOUT_MODEL = {  # bases, Table, what is no kind and the kinds of our own
    "advisor_v1.Audit",
    "core_v1.RangeAllocation",
    "advisor_v1.SchedulingExplanation",
    "apiextensions_v1.CustomResourceSubresourceStatus",
    "advisor_v1.Simulation",
    "meta_v1.TypeMeta",
    "meta_v1.Resource",
    "meta_v1.ResourceList",
    "meta_v1.PartialObjectMetadata",
    "meta_v1.PartialObjectMetadataList",
    "meta_v1.Table",
    "meta_v1.TableColumnDefinition",
    "meta_v1.TableRow",
    "meta_v1.TableRowCondition",
    "meta_v1.GroupVersionResource",
    "meta_v1.RootPaths",
}


def api_modules() -> dict[str, types.ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(mooring.api.__path__)]
    return {name: importlib.import_module(f"mooring.api.{name}") for name in names if GROUP_VERSION.fullmatch(name)}


def classes_of(name: str, module: types.ModuleType) -> dict[str, type[Object]]:
    """Return the types a module offers: its own, and those it shares with another version of its group."""
    group = name.partition("_")[0]
    return {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Object)
        and value.__module__.startswith(f"mooring.api.{group}_")
        and not key.startswith("_")
        and key not in BASES
    }


TYPES = {
    f"{module_name}.{class_name}": cls
    for module_name, module in api_modules().items()
    for class_name, cls in classes_of(module_name, module).items()
}


def model_of(type_name: str) -> Any:
    """Return the client's model; where two groups have a type of that name, the client puts the group before it."""
    module_name, _, class_name = type_name.partition(".")
    match = GROUP_VERSION.fullmatch(module_name)
    assert match
    version = match[2].capitalize()
    for name in (f"{match[1].capitalize()}{version}{class_name}", f"{version}{class_name}", class_name):
        if hasattr(models, name):
            return getattr(models, name)
    return None


@cache
def wire_fields(model: Any) -> dict[str, tuple[str, bool]]:
    """Return the JSON fields of a client's model, with their OpenAPI type and whether they are required."""
    by_json_name = {field.serialization_alias or name: field for name, field in model.model_fields.items()}
    return {
        json_name: (model.openapi_types[attribute], by_json_name[json_name].is_required())
        for attribute, json_name in model.attribute_map.items()
    }


def home_of(cls: type[Object]) -> str:
    """Return the group-version module that defines a type, such as core_v1."""
    return cls.__module__.removeprefix("mooring.api.").partition(".")[0]


def bare(annotation: Any) -> Any:
    """Return a type without its metadata and without None."""
    if get_origin(annotation) is typing.Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in (typing.Union, types.UnionType):
        options = [bare(option) for option in get_args(annotation) if option is not types.NoneType]
        return options[0] if len(options) == 1 else tuple(options)
    return annotation


_SCHEMA_OR_SCHEMAS = (JSONSchemaProps, list[JSONSchemaProps])

SCALARS: dict[str, tuple[Any, ...]] = {
    "str": (str, Quantity),
    "datetime": (str,),
    "int": (int,),
    "bool": (bool,),
    "bytes": (bytes,),
    "float": (float, (int, float)),
    "object": (Any, (int, str), CustomResourceSubresourceStatus, (JSONSchemaProps, bool), _SCHEMA_OR_SCHEMAS),
}


class Walk:
    """Compares our types with the client's, following fields from one struct to the next."""

    def __init__(self) -> None:
        self.visited: set[type[Object]] = set()
        self.differences: list[str] = []
        self._pending: list[tuple[type[Object], str]] = []
        self._seen: set[tuple[type[Object], str]] = set()

    def run(self) -> "Walk":
        self._pending = [(cls, model.__name__) for name, cls in TYPES.items() if (model := model_of(name))]
        while self._pending:
            pair = self._pending.pop()
            if pair not in self._seen:
                self._seen.add(pair)
                self.visited.add(pair[0])
                self._compare_struct(*pair)
        return self

    def _compare_struct(self, cls: type[Object], model_name: str) -> None:
        theirs = wire_fields(getattr(models, model_name))
        ours = {field.encode_name: field for field in msgspec.structs.fields(cls)}
        here = f"{home_of(cls)}.{cls.__name__}"
        for name in theirs.keys() - ours.keys():
            self.differences.append(f"{here}.{name}: missing")
        for name, field in ours.items():
            path = f"{here}.{name}"
            if name in theirs:
                type_, required = theirs[name]
                if is_required(field) != required:
                    self.differences.append(f"{path}: should {'' if required else 'not '}be required")
                self._compare(field.type, type_, path)
            elif path not in OURS_ALONE:
                self.differences.append(f"{path}: Kubernetes has no such field")

    def _compare(self, ours: Any, theirs: str, path: str) -> None:
        ours = bare(ours)
        container, _, item = theirs.removesuffix("]").partition("[")
        if container == "List" and get_origin(ours) is list:
            self._compare(get_args(ours)[0], item, f"{path}[]")
        elif container == "Dict" and get_origin(ours) is dict:
            self._compare(get_args(ours)[1], item.removeprefix("str, "), f"{path}{{}}")
        elif hasattr(models, theirs) and isinstance(ours, type) and issubclass(ours, Object):
            self._pending.append((ours, theirs))
        elif theirs == "object" and (ours is msgspec.Raw or (get_origin(ours) is dict and get_args(ours)[1] is Any)):
            pass
        elif ours not in SCALARS.get(theirs, ()):
            self.differences.append(f"{path}: {ours} should be {theirs}")


@cache
def walk() -> Walk:
    return Walk().run()


@pytest.mark.parametrize("module", sorted(api_modules()))
def test_types_have_exactly_the_fields_of_kubernetes(module: str) -> None:
    assert [difference for difference in walk().differences if difference.startswith(f"{module}.")] == []


@pytest.mark.parametrize("module", sorted(api_modules()))
def test_types_have_a_counterpart_in_kubernetes(module: str) -> None:
    types_of_module = {name for name, cls in TYPES.items() if home_of(cls) == module and cls not in walk().visited}
    assert types_of_module == {name for name in WITHOUT_MODEL if name.startswith(f"{module}.")}


@pytest.mark.parametrize("module", sorted(api_modules()))
def test_types_and_their_fields_are_described(module: str) -> None:
    for name, cls in TYPES.items():
        if home_of(cls) == module:
            described = {"": cls.__doc__ or "", **descriptions(cls)}
            assert set(cls.__struct_fields__) <= described.keys(), name
            assert all(text.endswith(".") for text in described.values()), name
