"""The corpus of what changed between neighbouring releases: ``conformance/data/releases/``, and how to play it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "conformance" / "data" / "releases"
NEWER = [f"1.{minor}" for minor in range(30, 38)]
"""The newer release of each pair."""


@dataclass(frozen=True)
class Case:
    """An object that uses something that only the newer release of a pair has on by default."""

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
        return f"{self.newer} {self.name}"

    def has_field(self, tree: Any) -> bool:
        """Whether an answer still has the field."""
        for step in re.findall(r"[^.\[\]]+", self.field):
            if isinstance(tree, list):
                tree = tree[int(step)] if int(step) < len(tree) else None
            else:
                tree = tree.get(step) if isinstance(tree, dict) else None
        return tree is not None


def cases(newer: str) -> list[Case]:
    """What a release brought."""
    found = []
    for text in (FOLDER / f"{newer}.yaml").read_text().split("\n---\n"):
        said = re.match(r"# down: (\S+) (\S+)\n", text)
        assert said, text
        found.append(Case(newer, said[1], said[2], yaml.safe_load(text)))
    return found


ALL = [case for newer in NEWER for case in cases(newer)]
