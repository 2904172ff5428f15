"""The webhooks that the configurations in the store name, ready to be asked.

A `Hook` is one of them, with all that is needed to decide whether it is asked. `Configurations` reads them anew when a
configuration has changed; where there are none, that costs a look at an empty range. Used by ``admission.py``.
"""

from functools import cached_property
from typing import Any, Generic, TypeVar

from mooring.admission.policy.conditions import Conditions
from mooring.admission.policy.matching import Index, Matcher
from mooring.api import codec
from mooring.api.admissionregistration_v1 import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from mooring.store.kv import KeyValue, Store

W = TypeVar("W", bound=MutatingWebhook | ValidatingWebhook)
_USUAL_SECONDS = 10


class Hook(Generic[W]):
    """One webhook of a configuration."""

    def __init__(self, configuration: str, webhook: W) -> None:
        self.configuration = configuration
        self.webhook: W = webhook
        self.name = webhook.name
        self.ignores_failures = webhook.failure_policy == "Ignore"
        self.seconds = webhook.timeout_seconds or _USUAL_SECONDS
        self.matcher = Matcher(
            webhook.rules, (), webhook.match_policy, webhook.namespace_selector, webhook.object_selector
        )

    @cached_property
    def conditions(self) -> Conditions:
        """Compiled when the first request comes that is otherwise matched."""
        return Conditions(self.webhook.match_conditions, self.webhook.failure_policy)

    @property
    def allows_dry_run(self) -> bool:
        return self.webhook.side_effects in ("None", "NoneOnDryRun")


_KINDS: dict[type[Any], type[Any]] = {
    MutatingWebhook: MutatingWebhookConfiguration,
    ValidatingWebhook: ValidatingWebhookConfiguration,
}


class Configurations(Generic[W]):
    """All webhooks of one sort, in the order in which they are asked: by configuration, then as they stand there."""

    def __init__(self, store: Store, sort: type[W]) -> None:
        self._store = store
        self._type = _KINDS[sort]
        self._prefix = f"/registry/{self._type.__name__.lower()}s/"
        self._seen: list[KeyValue] = []
        self._hooks: Index[Hook[W]] = Index(())

    def hooks(self) -> Index[Hook[W]]:
        """The webhooks as this server knows them now."""
        items = self._store.peek_all(self._prefix)
        if items != self._seen:
            self._hooks = Index([hook for kv in items for hook in self._hooks_of(kv)])
            self._seen = items
        return self._hooks

    def _hooks_of(self, kv: KeyValue) -> list[Hook[W]]:
        configuration = codec.decode_own(kv.value, self._type)
        webhooks: list[W] = configuration.webhooks
        return [Hook(configuration.metadata.name, webhook) for webhook in webhooks if webhook.rules]
