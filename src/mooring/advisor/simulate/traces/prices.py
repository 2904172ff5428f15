"""Hourly prices of nodes: from a label, from a table, or from Karpenter's instance types."""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mooring.advisor.simulate.traces.events import TraceError
from mooring.api.core_v1 import Node

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class Prices:
    """The hourly prices of nodes: a label with the price itself, or a table by instance type; 0 for other nodes."""

    label: str = ""
    """The label that holds the price itself."""
    table: Mapping[str, float] = field(default_factory=dict)
    """Prices by instance type."""

    def __bool__(self) -> bool:
        return bool(self.label or self.table)

    def price_of(self, node: Node) -> float:
        labels = node.metadata.labels
        if self.label and self.label in labels:
            return _parse_number(labels[self.label])
        return self.table.get(labels.get(_INSTANCE_TYPE, ""), 0.0)

    def total_price(self, nodes: Iterable[Node]) -> float:
        """Return the sum of the nodes' hourly prices."""
        return sum(map(self.price_of, nodes)) if self else 0.0


def read_prices(path: Path) -> Prices:
    """Read hourly prices from a CSV table by instance type, or from Karpenter's JSON. Raise TraceError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise TraceError(f"{path}: cannot be read: {problem}") from problem
    return Prices(table=_read_karpenter(text, path) if text.lstrip().startswith("[") else _read_table(text, path))


def _read_table(text: str, path: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row or (number == 1 and math.isnan(_parse_number(row[-1], math.nan))):
            continue
        price = _parse_number(row[1], math.nan) if len(row) == 2 else math.nan
        if not price >= 0:
            raise TraceError(f"{path}:{number}: expected a name and a price, as in m5.large,0.096")
        found[row[0]] = price
    return found


def _read_karpenter(text: str, path: Path) -> dict[str, float]:
    try:
        listed = msgspec.json.decode(text)
        return {str(each["name"]): _cheapest_price(each["offerings"]) for each in listed}
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError) as problem:
        raise TraceError(f"{path}: not a list of Karpenter's instance types: {problem!r}") from problem


def _cheapest_price(offerings: list[dict[str, Any]]) -> float:
    prices = [(_is_spot(each), float(each["Price"] if "Price" in each else each["price"])) for each in offerings]
    if any(not price >= 0 for _, price in prices):
        raise ValueError("a price is negative")
    return min(prices)[1]


def _is_spot(offering: dict[str, Any]) -> bool:
    needs = offering.get("Requirements") or offering.get("requirements") or []
    return offering.get("capacityType") == "spot" or any("spot" in (need.get("values") or []) for need in needs)


def _parse_number(text: str, otherwise: float = 0.0) -> float:
    try:
        found = float(text)
    except ValueError:
        return otherwise
    return found if math.isfinite(found) else otherwise
