"""Decode plugin arguments into typed structs, with errors that name the plugin and the field."""

from collections.abc import Mapping
from typing import Any, TypeVar

from mooring.api import codec
from mooring.api.base import Object
from mooring.scheduler.framework.registry import PluginError

T = TypeVar("T", bound=Object)


def read(plugin: str, arguments: Mapping[str, Any], kind: type[T]) -> T:
    """Decode the arguments of a plugin; `apiVersion` and `kind` are ignored. Raise PluginError."""
    tree = {key: value for key, value in arguments.items() if key not in ("apiVersion", "kind")}
    try:
        found, _ = codec.from_tree(tree, kind, codec.FieldValidation.STRICT)
    except codec.DecodeError as problem:
        raise PluginError(f"arguments of the scheduler plugin {plugin}: {problem}") from problem
    return found


def error(plugin: str, problem: str) -> PluginError:
    return PluginError(f"arguments of the scheduler plugin {plugin}: {problem}")
