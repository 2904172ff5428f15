"""Find the kubelet of a node, real or simulated.

Both implementations are imported at their first use: most servers need neither, and WebSockets are slow to import.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from mooring.api.core_v1 import Node
from mooring.api.simulation import is_simulated
from mooring.apiserver.access.pki import KeyPair
from mooring.apiserver.access.tokens import ServiceAccountTokens
from mooring.apiserver.registry.objects import Objects
from mooring.apiserver.streams.kubelet import Kubelet
from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.base.clock import Clock

if TYPE_CHECKING:
    from mooring.apiserver.streams.simulated.programs import ProgramStreams


class Kubelets:
    """Finds the kubelet of a node. `identity` is the client certificate for real kubelets."""

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        identity: Callable[[], KeyPair],
        options: KubeletOptions,
        tokens: ServiceAccountTokens,
    ) -> None:
        self._objects = objects
        self._tokens = tokens
        self._clock = clock
        self._identity = identity
        self._options = options

    def of(self, node: Node) -> Kubelet:
        return self._simulated if is_simulated(node) else self._real

    @cached_property
    def _simulated(self) -> Kubelet:
        from mooring.apiserver.streams.simulated.kubelet import SimulatedKubelet  # noqa: PLC0415 - as said above

        return SimulatedKubelet(self._objects, self._clock, self._tokens.issue, self._programs)

    @property
    def _programs(self) -> "ProgramStreams | None":
        if self._options.programs is None:
            return None
        from mooring.apiserver.streams.simulated.programs import ProgramStreams  # noqa: PLC0415 - as said above

        return ProgramStreams(self._options.programs, self._real)

    @cached_property
    def _real(self) -> Kubelet:
        from mooring.apiserver.streams.real.kubelets import RealKubelets  # noqa: PLC0415 - as said above
        from mooring.apiserver.streams.real.tls import KubeletTls  # noqa: PLC0415 - as said above

        tls = KubeletTls(self._identity, self._options.certificate_authority, self._clock)
        return RealKubelets(tls, self._options.address_types)
