"""Admission webhooks as a step of admission (``registry/admission_chain.py``); follows their stored configurations.

The response to a write of a configuration waits until this server knows it (`catch_up`). Without configurations the
step is idle, and ``admission.py`` is not even imported.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mooring.admission.policy.attributes import Attributes, MatchKey
from mooring.admission.policy.reinvocation import Reinvocation
from mooring.api.admissionregistration_v1 import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.admission_metrics import AdmissionMetrics
from mooring.apiserver.registry.objects import Follower
from mooring.store.kv import Store

if TYPE_CHECKING:
    from mooring.apiserver.extension.webhooks.admission import Caller, WebhookAdmission
    from mooring.constraints.celenv.authorizer import Decide

GROUP = "admissionregistration.k8s.io"


class WebhookStep:
    """The step of admission that calls webhooks."""

    names = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")

    def __init__(
        self,
        store: Store,
        scheme: Scheme,
        caller: "Caller",
        namespace_labels: Callable[[str], Mapping[str, str]],
        decide: "Decide",
        *,
        metrics: AdmissionMetrics,
    ) -> None:
        self._caller = caller
        self._labels = namespace_labels
        self._decide = decide
        self._metrics = metrics
        self._mutating: Follower[MutatingWebhookConfiguration] = Follower(
            store, scheme, _kind(scheme, "MutatingWebhookConfiguration"), self._changed
        )
        self._validating: Follower[ValidatingWebhookConfiguration] = Follower(
            store, scheme, _kind(scheme, "ValidatingWebhookConfiguration"), self._changed
        )
        self._admission: WebhookAdmission | None = None
        self.is_idle = True

    async def run(self) -> None:
        """Follow until the store is closed."""
        await asyncio.gather(self._mutating.run(), self._validating.run())

    async def wait_for_sync(self) -> None:
        await self._mutating.synced.wait()
        await self._validating.synced.wait()

    async def catch_up(self) -> None:
        """Wait until this server knows the configurations that are in the store now."""
        await self._mutating.catch_up()
        await self._validating.catch_up()

    def ignores(self, key: MatchKey, *, mutating: bool) -> bool:
        return self._admission is not None and self._admission.ignores(key, mutating=mutating)

    async def mutate(self, attributes: Attributes, reinvocation: Reinvocation) -> None:
        await self._refresh().mutate(attributes, reinvocation)

    async def validate(self, attributes: Attributes) -> None:
        await self._refresh().validate(attributes)

    def _changed(self) -> None:
        self._admission = None
        self.is_idle = not self._mutating.objects and not self._validating.objects

    def _refresh(self) -> "WebhookAdmission":
        if self._admission is None:
            from mooring.apiserver.extension.webhooks.admission import WebhookAdmission  # noqa: PLC0415 - most servers have none

            self._admission = WebhookAdmission(
                self._mutating.objects.values(),
                self._validating.objects.values(),
                self._caller,
                self._labels,
                self._decide,
                metrics=self._metrics,
            )
        return self._admission


def _kind(scheme: Scheme, name: str) -> Kind:
    kind = scheme.kind(f"{GROUP}/v1", name)
    assert kind is not None, "the scheme always has webhooks"  # noqa: S101 - api/kinds.py lists them
    return kind
