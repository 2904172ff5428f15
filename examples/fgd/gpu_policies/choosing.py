"""What decides among nodes that are equally good.

The paper's simulator takes the first in an order that is drawn by lot once; here it is the order in which nodes came
(FixedOrder), which is drawn together with the tasks. So equal nodes are filled one after the other; Mooring's own way,
a lot for every pod, would spread pods over them.
"""

import numpy as np
from numpy.typing import NDArray

from gpu_policies.cards import Cards, Demand
from mooring.api.core_v1 import Pod
from mooring.scheduler.framework import Handle, PluginArguments


class FixedOrder:
    """The node that came first."""

    name = "FixedOrder"

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._cluster = handle.cluster
        self._places: dict[str, int] = {}
        self._order: NDArray[np.int64] = np.empty(0, np.int64)
        self._known_at = -1

    def choose(self, _pod: Pod, rows: NDArray[np.intp]) -> int:
        if self._known_at != self._cluster.nodes_changed_at:
            self._know()
        return int(rows[self._order[rows].argmin()])

    def _know(self) -> None:
        self._known_at = self._cluster.nodes_changed_at
        self._order = np.zeros(self._cluster.capacity, np.int64)
        for info in self._cluster.node_infos():
            self._order[info.row] = self._places.setdefault(info.name, len(self._places))


class Random:
    """Any node that will do, and any of its cards."""

    name = "Random"

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._lot = handle.lot
        Cards.of(handle.cluster).pick = self._card

    def choose(self, _pod: Pod, rows: NDArray[np.intp]) -> int:
        return int(self._lot.choice(rows))

    def _card(self, _row: int, fitting: NDArray[np.intp], _demand: Demand) -> int:
        return int(self._lot.choice(fitting))
