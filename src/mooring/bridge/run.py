"""Run the bridge's three controllers on shared informers, with leader election."""

from prometheus_client import CollectorRegistry

from mooring.api.errors import StatusError
from mooring.base import logs
from mooring.bridge.checking import check
from mooring.bridge.cluster import BridgedCluster, NodeLabelController
from mooring.bridge.pods import COMPONENT, PodConstraintController
from mooring.bridge.webhooks import TimedEviction
from mooring.client import Client, ClientError, Informers, LeaseTimes
from mooring.client.leader_election import LeaderElection
from mooring.controllers.controller import Context
from mooring.controllers.run import ControllerSet

NAMESPACE = "mooring-bridge"
log = logs.get(__name__)


class Bridge(ControllerSet):
    """The bridge as a component: its controllers, run while it is the leader."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str = NAMESPACE,
        lease_times: LeaseTimes | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        super().__init__(client, LeaderElection(COMPONENT, namespace, times=lease_times or LeaseTimes()))
        self._namespace = namespace
        self.context = Context(client, Informers(client), registry=registry or CollectorRegistry())
        self.cluster = BridgedCluster()
        labels, pods = (
            NodeLabelController(self.context, self.cluster),
            PodConstraintController(self.context, self.cluster),
        )
        self.controllers = {each.name: each for each in (labels, pods, TimedEviction(self.context))}

    async def prepare(self) -> None:
        """Log the requirements of the bridge that the cluster does not meet."""
        try:
            async for each in check(self._client, self._namespace):
                if each.is_needed and not each.is_there:
                    log.error(
                        "this cluster lacks %s: %s; `mooring bridge --check` has the whole list", each.what, each.hint
                    )
        except (StatusError, ClientError) as error:
            log.warning("cannot find out what the bridge may do in this cluster: %s", error)
