"""The evaluators of all kinds, by their resource."""

from collections.abc import Callable, Mapping
from datetime import datetime

from mooring.admission.accounting.claims import DeviceClaimEvaluator, VolumeClaimEvaluator
from mooring.admission.accounting.evaluator import Evaluator, Usage
from mooring.admission.accounting.pods import PodEvaluator
from mooring.admission.accounting.services import ServiceEvaluator
from mooring.admission.options import AdmissionOptions
from mooring.api.core_v1 import Pod
from mooring.api.kinds import Kind
from mooring.api.resource_v1 import ResourceClaim

_UNCOUNTED = frozenset({("", "events"), ("events.k8s.io", "events")})


class Evaluators:
    """The evaluators of all kinds.

    `extended` maps device classes to extended resources; `pod_of` finds the pod for whose extended resources a
    ResourceClaim was created.
    """

    def __init__(
        self,
        options: AdmissionOptions,
        now: Callable[[], datetime],
        *,
        extended: Callable[[], Mapping[str, str]] = dict,
        pod_of: Callable[[ResourceClaim], Pod | None] = lambda _: None,
    ) -> None:
        self.pods = PodEvaluator(now, pod_level=options.pod_level_resources)

        def paid(claim: ResourceClaim) -> Usage:
            pod = pod_of(claim)
            return {} if pod is None else self.pods.usage(pod)

        devices = DeviceClaimEvaluator(extended, paid, extended_resources=options.extended_device_resources)
        special = (self.pods, ServiceEvaluator(), VolumeClaimEvaluator(), devices)
        self._known: dict[tuple[str, str], Evaluator] = {(each.group, each.resource): each for each in special}

    def of(self, kind: Kind) -> Evaluator | None:
        """Return the evaluator of a kind; None for kinds that quotas never count."""
        place = (kind.group, kind.plural)
        found = self._known.get(place)
        if found is None and kind.namespaced and place not in _UNCOUNTED:
            found = self._known[place] = Evaluator(*place)
        return found
