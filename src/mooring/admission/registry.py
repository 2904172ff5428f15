"""The strategies of all kinds, by struct type. A module with a new kind is added to `_MODULES`."""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from mooring.admission.strategy import Strategy, SubresourceStrategy
from mooring.api import meta_v1

_MODULES = """
    api_services autoscaler certificates configuration cron_job daemon_set definitions.strategy deployment disruption
    dra.claim dra.slice dra.taints endpoints event flow_control job lease namespace networking node persistent_volume
    persistent_volume_claim pod.strategy policy.strategy priority_class quota rbac reviews runtime_class service
    stateful_set storage storage_migration webhook_configurations
"""
_BY_TYPE: dict[type[meta_v1.Resource], Strategy[Any]] = {}


def register(*strategies: Strategy[Any]) -> None:
    """Add strategies to the registry; each replaces that of the same kind."""
    _BY_TYPE.update({strategy.object_type: strategy for strategy in strategies})


def unregister(object_type: type[meta_v1.Resource]) -> None:
    """Remove the strategy of a kind, such as a deleted custom kind; do nothing if there is none."""
    _BY_TYPE.pop(object_type, None)


def strategy_of(object_type: type[meta_v1.Resource]) -> Strategy[Any]:
    """Return the strategy of a kind by its struct type. Raise KeyError if there is none."""
    return _BY_TYPE[object_type]


def find_strategy(object_type: type[meta_v1.Resource]) -> Strategy[Any] | None:
    """Return the strategy of a kind by its struct type; None for a kind without admission rules."""
    return _BY_TYPE.get(object_type)


def _create_module_strategies(module: ModuleType) -> Iterator[Strategy[Any]]:
    """Yield an instance of each public strategy class that a module defines, except those of subresources."""
    for name, value in vars(module).items():
        is_own = isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
        if is_own and issubclass(value, Strategy) and not issubclass(value, SubresourceStrategy):
            yield value()


for _module in _MODULES.split():
    register(*_create_module_strategies(import_module(f"mooring.admission.{_module}")))
