"""Metrics of policies and webhooks, with the names, labels and buckets of kube-apiserver.

`PolicyStep` and the webhooks report to `AdmissionMetrics`. As in Kubernetes, a ValidatingAdmissionPolicy that admits a
request is not counted.
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from mooring.admission.policy.bound import EvaluationRecord
from mooring.base.metrics import Counts, CountsCollector, Histograms

_STEPS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_CALLS = (*_STEPS, 10, 25)
_CHECKS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_WEBHOOK = ("name", "type", "operation")
_CHECKED = ("policy", "policy_binding", "error_type")
_MOST_CODE = 600  # webhooks may return any number
ADMIT, VALIDATING = "admit", "validating"
"""kube-apiserver's names of the two types of webhooks."""


class AdmissionMetrics:
    """The metrics of admission policies and webhooks: their decisions, durations and failures."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._controllers = Histograms(
            "apiserver_admission_controller_admission_duration_seconds",
            "How long all policies or all webhooks of a type took for a request.",
            ("name", "type", "operation", "rejected"),
            _STEPS,
        )
        self._durations = Histograms(
            "apiserver_admission_webhook_admission_duration_seconds",
            "How long a webhook took.",
            (*_WEBHOOK, "rejected"),
            _CALLS,
        )
        self._requests = Counts(
            "apiserver_admission_webhook_request", "Calls of a webhook.", (*_WEBHOOK, "code", "rejected")
        )
        self._rejections = Counts(
            "apiserver_admission_webhook_rejection_count",
            "Requests that a webhook refused, or that were refused because it failed.",
            (*_WEBHOOK, "error_type", "rejection_code"),
        )
        self._failed_open = Counts(
            "apiserver_admission_webhook_fail_open_count", "Failures of a webhook that were ignored.", ("name", "type")
        )
        self._validations = Counts(
            "apiserver_validating_admission_policy_check",
            "Validations that were not met, or not evaluated.",
            (*_CHECKED, "enforcement_action"),
        )
        self._validation_seconds = Histograms(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "How long it took to evaluate them.",
            (*_CHECKED, "enforcement_action"),
            _CHECKS,
        )
        self._mutations = Counts(
            "apiserver_mutating_admission_policy_check", "Mutations that were evaluated.", _CHECKED
        )
        self._mutation_seconds = Histograms(
            "apiserver_mutating_admission_policy_check_duration_seconds", "How long that took.", _CHECKED, _CHECKS
        )
        self._counted = (self._controllers, self._durations, self._requests, self._rejections, self._failed_open)
        self._checked = (self._validations, self._validation_seconds, self._mutations, self._mutation_seconds)
        registry.register(CountsCollector(*self._counted, *self._checked))

    def record_step(self, name: str, type_: str, operation: str, seconds: float, *, rejected: bool) -> None:
        """Record the seconds that all policies, or all webhooks, took for one request."""
        self._controllers.observe((name, type_, operation, _flag(rejected)), seconds)

    def record_call(self, name: str, type_: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        """Count a call of a webhook; the code is 200 if it admitted the request."""
        where = (name, type_, operation)
        self._requests.add((*where, str(min(code, _MOST_CODE)), _flag(rejected)))
        self._durations.observe((*where, _flag(rejected)), seconds)

    def record_rejection(self, name: str, type_: str, operation: str, error_type: str, code: int) -> None:
        """Count a request that a webhook denied, or that failed because a webhook call did."""
        self._rejections.add((name, type_, operation, error_type, str(min(code, _MOST_CODE))))

    def failed_open(self, name: str, type_: str) -> None:
        self._failed_open.add((name, type_))

    def record_validation(self, checks: Iterable[EvaluationRecord]) -> None:
        for each in checks:
            labels = (each.policy, each.binding, each.metric_error_type, each.action)
            self._validations.add(labels)
            self._validation_seconds.observe(labels, each.seconds)

    def record_mutation(self, checks: Iterable[EvaluationRecord]) -> None:
        for each in checks:
            labels = (each.policy, each.binding, each.metric_error_type)
            self._mutations.add(labels)
            self._mutation_seconds.observe(labels, each.seconds)


def _flag(value: bool) -> str:
    return "true" if value else "false"
