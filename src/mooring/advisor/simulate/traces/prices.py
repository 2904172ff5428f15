"""What nodes cost by the hour: from a label of theirs, or from a table by the value of a label."""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mooring.advisor.simulate.traces.events import TraceError
from mooring.api.core_v1 import Node

INSTANCE_TYPE = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class Prices:
    """No prices at all unless a label or a table says some."""

    label: str = ""
    """The label that has the price itself ..."""
    table: Mapping[str, float] = field(default_factory=dict)
    """... or prices by the value of `by`."""
    by: str = INSTANCE_TYPE

    def __bool__(self) -> bool:
        return bool(self.label or self.table)

    def of(self, node: Node) -> float:
        labels = node.metadata.labels
        if self.label and self.label in labels:
            return _number(labels[self.label])
        return self.table.get(labels.get(self.by, ""), 0.0)

    def rate(self, nodes: Iterable[Node]) -> float:
        """What all of them cost in an hour."""
        return sum(map(self.of, nodes)) if self else 0.0


def read(path: Path, by: str = INSTANCE_TYPE) -> Prices:
    """A table with two columns, the value of a label and the price. Raises TraceError."""
    table: dict[str, float] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            for number, row in enumerate(csv.reader(stream), 1):
                if not row or (number == 1 and math.isnan(_number(row[-1], math.nan))):
                    continue
                price = _number(row[1], math.nan) if len(row) == 2 else math.nan
                if not price >= 0:
                    raise TraceError(f"{path}:{number}: expected a name and a price, as in m5.large,0.096")
                table[row[0]] = price
    except (OSError, UnicodeDecodeError) as problem:
        raise TraceError(f"{path}: cannot be read: {problem}") from problem
    return Prices(table=table, by=by)


def _number(text: str, otherwise: float = 0.0) -> float:
    try:
        found = float(text)
    except ValueError:
        return otherwise
    return found if math.isfinite(found) else otherwise
