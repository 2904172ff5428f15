"""Write the APIServices of this server's group-versions, on the first request for APIServices and after changes.

APIServices of other servers can be written and read; their status says that they are not available, because this server
does not proxy requests. ``requests/app.py`` calls it before requests for APIServices.
"""

import asyncio
from contextlib import suppress

from mooring.api import apiregistration_v1, errors, times
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.base.clock import Clock

GROUP = "apiregistration.k8s.io"
AUTOMATIC = "kube-aggregator.kubernetes.io/automanaged"
_BUILT_IN, _CUSTOM = "onstart", "true"
_GROUPS = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "storagemigration.k8s.io": 15800,
}
"""By API group, Kubernetes' priorities; clients prefer the highest."""
_OF_CUSTOM, _CUSTOM_VERSION = 1000, 100
_VERSIONS = {
    GroupVersion("", "v1"): 1,
    GroupVersion("autoscaling", "v2"): 30,
    GroupVersion("resource.k8s.io", "v1"): 21,
    GroupVersion("resource.k8s.io", "v1beta2"): 15,
    GroupVersion("flowcontrol.apiserver.k8s.io", "v1"): 21,
    GroupVersion("admissionregistration.k8s.io", "v1beta1"): 12,
}
_STABLE, _OTHER = 15, 9


class ApiServices:
    """Creates and deletes the APIService objects of this server's own group-versions."""

    def __init__(self, calls: LoopbackClient, scheme: Scheme, clock: Clock) -> None:
        self._calls = calls
        self._scheme = scheme
        self._clock = clock
        self._kept = -1
        """The change counter of the scheme at the last write."""
        self._writing = asyncio.Lock()

    async def reconcile(self) -> None:
        """Create missing APIServices, and delete those of group-versions that are no longer served."""
        if self._kept == self._scheme.changes:
            return
        async with self._writing:
            now = self._scheme.changes
            wanted = {each.metadata.name: each for each in self._desired_services()}
            found = {each.metadata.name: each for each in await self._calls.list(apiregistration_v1.APIService)}
            missing = [each for name, each in wanted.items() if name not in found]
            gone = [each for name, each in found.items() if name not in wanted and AUTOMATIC in each.metadata.labels]
            await asyncio.gather(*map(self._calls.ensure, missing), *map(self._delete_service, gone))
            self._kept = now

    async def mark_unavailable(self) -> None:
        """Set Available to False on APIServices of other servers, to which this server does not proxy."""
        for each in await self._calls.list(apiregistration_v1.APIService):
            if each.spec.service is not None and not each.status.conditions:
                condition = apiregistration_v1.APIServiceCondition(
                    type=apiregistration_v1.AVAILABLE,
                    status="False",
                    reason="NotAggregated",
                    message="this server passes no requests on to other API servers",
                    last_transition_time=times.to_seconds(self._clock.now()),
                )
                each.status = apiregistration_v1.APIServiceStatus(conditions=[condition])
                with suppress(errors.Conflict, errors.NotFound):  # it has changed: the next request sets it
                    await self._calls.update(each, "status")

    async def _delete_service(self, gone: apiregistration_v1.APIService) -> None:
        with suppress(errors.NotFound):  # another server was first
            await self._calls.delete(gone)

    def _desired_services(self) -> list[apiregistration_v1.APIService]:
        custom = {kind.group_version for kind in self._scheme.served if kind.custom}
        every = [
            GroupVersion(group, version) for group in self._scheme.groups for version in self._scheme.versions(group)
        ]
        return [_make_local_service(each, is_custom=each in custom) for each in every if each.group != GROUP]


def _make_local_service(where: GroupVersion, *, is_custom: bool) -> apiregistration_v1.APIService:
    usual = _CUSTOM_VERSION if is_custom else _STABLE if where.version == "v1" else _OTHER
    return apiregistration_v1.APIService(
        metadata=ObjectMeta(
            name=f"{where.version}.{where.group}", labels={AUTOMATIC: _CUSTOM if is_custom else _BUILT_IN}
        ),
        spec=apiregistration_v1.APIServiceSpec(
            group=where.group,
            version=where.version,
            group_priority_minimum=_GROUPS.get(where.group, _OF_CUSTOM),
            version_priority=_VERSIONS.get(where, usual),
        ),
    )
