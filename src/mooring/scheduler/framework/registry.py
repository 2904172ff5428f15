"""Plugin factories by name, and the `Handle` that they receive.

A factory takes the plugin's arguments, as a KubeSchedulerConfiguration has them, and a `Handle`. The registry of
built-in plugins is ``scheduler/plugins/__init__.py``; users' factories come from the entry-point group `ENTRY_POINTS`.
"""

import importlib
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework.options import SchedulerFeatures
from mooring.scheduler.framework.plugins import Plugin

if TYPE_CHECKING:  # simulations need no client, and should not wait for it to be loaded
    from mooring.client import Client
    from mooring.scheduler.framework.nominations import Nominations
    from mooring.scheduler.framework.waiting import WaitingPods

ENTRY_POINTS = "mooring.scheduler.plugins"

PluginArguments = Mapping[str, Any]
"""The arguments of a plugin as decoded from JSON or YAML, with camelCase keys."""


class Handle(msgspec.Struct, frozen=True):
    """The scheduler's objects that a plugin may use, such as cluster, client and nominations."""

    cluster: Cluster
    features: SchedulerFeatures = msgspec.field(default_factory=SchedulerFeatures)
    client: "Client | None" = None
    """The client for `pre_bind` and `bind`; None if nothing is written, as in simulations."""
    nominations: "Nominations | None" = None
    """The nominated pods of the scheduler."""
    lot: random.Random = msgspec.field(default_factory=random.Random)
    """The random generator that chooses among nodes with equal scores; a seed makes choices repeatable."""
    waiting: "WaitingPods | None" = None
    """The pods that Permit plugins make wait, to be allowed or rejected; None if pods are not bound."""
    workload: Iterable[Pod] = ()
    """The pods that will arrive later, if known: set in replays of traces, for plugins that sample them."""


Factory = Callable[[PluginArguments, Handle], Plugin]
Registry = Mapping[str, Factory]


class PluginError(ValueError):
    """A plugin cannot be created; the message names it and says why."""


@cache
def from_entry_points() -> Registry:
    """Return the plugin factories of installed packages by name, read once; raise PluginError if one fails to load."""
    found: dict[str, Factory] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            found[entry.name] = entry.load()
        except Exception as problem:
            what = f"the scheduler plugin {entry.name} ({entry.value})"
            raise PluginError(f"{what} cannot be loaded: {problem}") from problem
    return found


def from_folder(folder: Path) -> dict[str, Factory]:
    """Return the plugin factories that the `pyproject.toml` of an uninstalled package names. Raise PluginError."""
    import tomllib  # noqa: PLC0415 - few have such a package, and it takes long to load

    path = folder / "pyproject.toml"
    try:
        named = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["entry-points"][ENTRY_POINTS]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise PluginError(f"{path} cannot be read: {problem}") from problem
    except (KeyError, TypeError) as problem:
        raise PluginError(f'{path} has no [project.entry-points."{ENTRY_POINTS}"]') from problem
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    found: dict[str, Factory] = {}
    for name, value in named.items():
        module, _, attribute = str(value).partition(":")
        try:
            found[name] = getattr(importlib.import_module(module), attribute)
        except Exception as problem:
            what = f"the scheduler plugin {name} ({value}) of {folder}"
            raise PluginError(f"{what} cannot be loaded: {problem}") from problem
    return found
