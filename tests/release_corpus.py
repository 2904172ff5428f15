"""The corpus of what changed between neighbouring releases: ``conformance/data/releases/``, and how to play it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "conformance" / "data" / "releases"
NEWER = [f"1.{minor}" for minor in range(28, 38)]
"""The newer release of each pair."""


@dataclass(frozen=True)
class Case:
    """Something in an object that only the newer release of a pair has on by default."""

    newer: str
    rule: str
    field: str
    tree: dict[str, Any]

    @property
    def older(self) -> str:
        return f"1.{int(self.newer.partition('.')[2]) - 1}"

    @property
    def name(self) -> str:
        return f"{self.tree['kind']} {self.tree['metadata']['name']}"

    def __str__(self) -> str:
        return f"{self.newer} {self.name} {self.field}"

    def has_field(self, tree: Any) -> bool:
        """Whether an answer still has the field."""
        for step in re.findall(r"[^.\[\]]+", self.field):
            if isinstance(tree, list):
                tree = tree[int(step)] if int(step) < len(tree) else None
            else:
                tree = tree.get(step) if isinstance(tree, dict) else None
        return tree is not None


def cases(newer: str) -> list[Case]:
    """Return what a release brought."""
    found = []
    for text in (FOLDER / f"{newer}.yaml").read_text().split("\n---\n"):
        said = re.findall(r"^# down: (\S+) (\S+)$", text, re.MULTILINE)
        assert said, text
        found += [Case(newer, rule, field, yaml.load(text, Loader=yaml.CSafeLoader)) for rule, field in said]
    return found


ALL = [case for newer in NEWER for case in cases(newer)]
