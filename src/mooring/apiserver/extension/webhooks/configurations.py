"""The webhooks that configurations name, ready to be asked: a `Hook` has all that decides whether it is."""

from collections.abc import Iterable
from functools import cached_property
from typing import Generic, TypeVar

from mooring.admission.policy.conditions import Conditions
from mooring.admission.policy.matching import Index, Matcher
from mooring.api.admissionregistration_v1 import (
    IGNORE,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)

W = TypeVar("W", bound=MutatingWebhook | ValidatingWebhook)
_USUAL_SECONDS = 10


class Hook(Generic[W]):
    """One webhook of a configuration."""

    def __init__(self, configuration: str, webhook: W) -> None:
        self.configuration = configuration
        self.webhook: W = webhook
        self.name = webhook.name
        self.ignores_failures = webhook.failure_policy == IGNORE
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


def mutating_hooks(configurations: Iterable[MutatingWebhookConfiguration]) -> Index[Hook[MutatingWebhook]]:
    """In the order in which they are asked: by configuration, then as they stand there. One without rules never is."""
    ordered = sorted(configurations, key=lambda each: each.metadata.name)
    return Index([Hook(each.metadata.name, webhook) for each in ordered for webhook in each.webhooks if webhook.rules])


def validating_hooks(configurations: Iterable[ValidatingWebhookConfiguration]) -> Index[Hook[ValidatingWebhook]]:
    """The same for those that judge."""
    ordered = sorted(configurations, key=lambda each: each.metadata.name)
    return Index([Hook(each.metadata.name, webhook) for each in ordered for webhook in each.webhooks if webhook.rules])
