"""Admission webhooks as a step of admission (``registry/admission_chain.py``), read from the stored configurations.

The response to a write of a configuration waits until this server uses it (`catch_up`). Without configurations the step
is skipped, and ``admission.py`` is not imported.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mooring.admission.policy.attributes import Attributes, MatchKey
from mooring.admission.policy.evaluation import Reinvocation
from mooring.api.admissionregistration_v1 import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.admission_metrics import AdmissionMetrics
from mooring.apiserver.registry.objects import KindsFollower
from mooring.store.kv import Store

if TYPE_CHECKING:
    from mooring.apiserver.extension.webhooks.admission import Caller, WebhookAdmission
    from mooring.constraints.celenv.authorizer import Decide


class WebhookStep(KindsFollower):
    """The admission step that calls webhooks, according to the stored webhook configurations."""

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
        kinds = scheme.hub_of(MutatingWebhookConfiguration), scheme.hub_of(ValidatingWebhookConfiguration)
        super().__init__(store, scheme, kinds)
        self._admission: WebhookAdmission | None = None
        self.is_idle = True

    def ignores(self, key: MatchKey, *, mutating: bool) -> bool:
        return self._admission is not None and self._admission.ignores(key, mutating=mutating)

    async def mutate(self, attributes: Attributes, reinvocation: Reinvocation) -> None:
        await self._get_admission().mutate(attributes, reinvocation)

    async def validate(self, attributes: Attributes) -> None:
        await self._get_admission().validate(attributes)

    def _on_changes(self) -> None:
        self._admission = None
        self.is_idle = not any(each.objects for each in self._followers.values())

    def _get_admission(self) -> "WebhookAdmission":
        if self._admission is None:
            from mooring.apiserver.extension.webhooks.admission import WebhookAdmission  # noqa: PLC0415 - most servers have none

            self._admission = WebhookAdmission(
                self._objects("MutatingWebhookConfiguration").values(),
                self._objects("ValidatingWebhookConfiguration").values(),
                self._caller,
                self._labels,
                self._decide,
                metrics=self._metrics,
            )
        return self._admission
