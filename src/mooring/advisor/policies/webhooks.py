"""Webhooks that stand in the way of an object: advice names them, and never calls them.

What a webhook would say is not known before it is asked, and to be asked may have effects. `WebhooksInTheWay` tells
which ones a server would ask, by the same rules, selectors and conditions. Called by ``judging.py``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.admission.policy.attributes import Attributes
from mooring.admission.policy.conditions import ConditionError
from mooring.admission.policy.evaluation import values_for
from mooring.admission.policy.matching import Index
from mooring.api.admissionregistration_v1 import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from mooring.api.meta_v1 import Resource
from mooring.apiserver.extension.webhooks.configurations import Hook, mutating_hooks, validating_hooks

CONFIGURATIONS: tuple[type[Resource], ...] = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)


class WebhooksInTheWay:
    """The webhooks of a cluster."""

    def __init__(self, objects: Iterable[Resource], labels: Mapping[str, Mapping[str, str]]) -> None:
        """`labels` are those of namespaces; one that is not there has its name as a label alone."""
        every = [*objects]
        self._labels = labels
        self._sorts: dict[str, Index[Any]] = {
            "MutatingWebhookConfiguration": mutating_hooks(
                each for each in every if isinstance(each, MutatingWebhookConfiguration)
            ),
            "ValidatingWebhookConfiguration": validating_hooks(
                each for each in every if isinstance(each, ValidatingWebhookConfiguration)
            ),
        }

    def asked(self, attributes: Attributes) -> list[str]:
        """Which webhooks would be asked about a write, and what it means if one cannot be."""
        if attributes.is_exempt:
            return []
        return [
            f'webhook "{hook.name}" of {sort} "{hook.configuration}" ({_without(hook)})'
            for sort, hooks in self._sorts.items()
            for hook in hooks.concerned(attributes)
            if self._is_asked(hook, attributes)
        ]

    def _is_asked(self, hook: Hook[Any], attributes: Attributes) -> bool:
        match = hook.matcher.match(attributes, self._labels_of)
        if match is None or not hook.conditions:
            return match is not None
        try:
            return hook.conditions.hold(values_for(attributes, match))
        except ConditionError:
            return True  # the server refuses then, by the webhook's conditions

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        return {"kubernetes.io/metadata.name": namespace, **self._labels.get(namespace, {})}


def _without(hook: Hook[Any]) -> str:
    return "without it the write passes" if hook.ignores_failures else "without it the write is refused"
