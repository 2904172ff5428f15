"""What is read of one release: see ``__main__.py``."""

from dataclasses import dataclass

from tools.history.go_sources import Stage, Types
from tools.history.openapi import Surface


@dataclass
class Facts:
    """What one release says."""

    minor: int
    commit: str
    surface: Surface
    types: dict[str, Types]
    gates: dict[str, list[Stage]]
    drops: set[tuple[str, str, str]]
    """The group, gate and Go name of fields that are dropped where the gate is off."""
    lifecycles: dict[tuple[str, str], dict[str, str]]
    legacy: set[tuple[str, str, str]]
