"""Read the docstrings of API types, which are their OpenAPI descriptions.

Python keeps docstrings of classes but not of attributes, so they are read from the source on demand, once per module.
An attribute without a docstring has the description of its name in `_COMMON`, or that of its type, such as that of
DeploymentSpec for `spec`, or else its name in words: "The node name." The API server puts descriptions into its OpenAPI
documents for ``kubectl explain``; a server starts without this module.
"""

import ast
import inspect
import sys
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from mooring.api.base import Object

_COMMON = {
    "api_group": "The API group of the object; the core group when absent.",
    "api_version": "The group and version of the object.",
    "app_protocol": "The protocol that the application speaks, as a hint.",
    "available_replicas": "How many of them have been ready for long enough.",
    "conditions": "The current conditions of the object.",
    "fs_type": "The file system of the volume.",
    "group": "The API group.",
    "ip": "The address.",
    "kind": "The kind of the object.",
    "last_probe_time": "When the condition was last checked.",
    "last_transition_time": "When the status last changed.",
    "message": "A sentence for people.",
    "min_ready_seconds": "How many seconds a new pod must be ready before it counts as available.",
    "name": "The name of the object.",
    "namespace": "The namespace of the object.",
    "observed_generation": "The generation of the object that the status reflects.",
    "protocol": "TCP, UDP or SCTP.",
    "read_only": "Whether it is mounted read-only.",
    "ready_replicas": "How many of them are ready.",
    "reason": "The reason, in CamelCase.",
    "uid": "The unique id of the object.",
}


def descriptions(cls: type[Object]) -> dict[str, str]:
    """Return the OpenAPI description of each attribute of a type, by its Python name, including inherited ones."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Object):
            found |= _read_module(base.__module__).get(base.__qualname__, {})
    return {
        field.name: found.get(field.name)
        or _COMMON.get(field.name)
        or _described_by_type(field.type)
        or f"The {field.name.replace('_', ' ')}."
        for field in msgspec.structs.fields(cls)
    }


def _described_by_type(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return _described_by_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        options = [option for option in get_args(annotation) if option is not NoneType]
        return _described_by_type(options[0]) if len(options) == 1 else ""
    is_object = isinstance(annotation, type) and issubclass(annotation, Object)
    return inspect.cleandoc(annotation.__doc__ or "") if is_object else ""


@cache
def _read_module(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _read_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _read_class(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found
