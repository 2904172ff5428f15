"""Find the webhooks that the server would call for an object, without calling them.

A call may have side effects, so the response is unknown. `CalledWebhooks` evaluates the same rules, selectors and
conditions as the server. Called by ``evaluation.py``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mooring.admission.policy.attributes import Attributes
from mooring.admission.policy.evaluation import ConditionError, build_variables
from mooring.admission.policy.matching import MatcherIndex
from mooring.api.admissionregistration_v1 import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from mooring.api.meta_v1 import Resource
from mooring.apiserver.extension.webhooks.step import CompiledWebhook, compile_webhooks


class CalledWebhook(NamedTuple):
    """A webhook that the server would call for an object."""

    name: str
    kind: str
    configuration: str
    ignores_failures: bool
    service: tuple[str, str] | None
    """The namespace and name of its Service; None for a webhook with a URL."""

    def __str__(self) -> str:
        without = "without it the write passes" if self.ignores_failures else "without it the write is refused"
        return f'webhook "{self.name}" of {self.kind} "{self.configuration}" ({without})'


class CalledWebhooks:
    """Matches objects against the webhook configurations of a cluster, by the server's rules."""

    def __init__(self, objects: Iterable[Resource], labels: Mapping[str, Mapping[str, str]]) -> None:
        """Index the webhooks; `labels` are those of namespaces; a missing namespace has only its name as a label."""
        every = [*objects]
        self._labels = labels
        self._hooks: dict[str, MatcherIndex[Any]] = {
            kind.__name__: compile_webhooks(each for each in every if isinstance(each, kind))
            for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
        }

    def called_for(self, attributes: Attributes) -> list[CalledWebhook]:
        """Return the webhooks that the server would call for a write request with the given attributes."""
        if attributes.is_exempt:
            return []
        found = []
        for kind, hooks in self._hooks.items():
            for hook in hooks.candidates(attributes):
                if self._is_called(hook, attributes):
                    service = hook.webhook.client_config.service
                    place = None if service is None else (service.namespace, service.name)
                    found.append(CalledWebhook(hook.name, kind, hook.configuration, hook.ignores_failures, place))
        return found

    def _is_called(self, hook: CompiledWebhook, attributes: Attributes) -> bool:
        match = hook.matcher.match(attributes, self._labels_of)
        if match is None or not hook.conditions:
            return match is not None
        try:
            return hook.conditions.are_met(build_variables(attributes, match))
        except ConditionError:
            return True  # the server refuses then, by the webhook's conditions

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        return {"kubernetes.io/metadata.name": namespace, **self._labels.get(namespace, {})}
