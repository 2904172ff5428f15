"""Check the objects that a new pod needs: ServiceAccount, RuntimeClass, namespace, and webhooks with a ready Service.

`References` states a refusal with the server's message. Called by `simulate`, which creates pods, and by `explain`.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from mooring.advisor.policies.evaluation import Verdict
from mooring.api import label_selector
from mooring.api.core_v1 import Namespace, Pod, Service, ServiceAccount
from mooring.api.node_v1 import RuntimeClass

if TYPE_CHECKING:
    from mooring.advisor.snapshot import Snapshot


class References:
    """Checks whether the objects that a new pod refers to exist in a snapshot."""

    def __init__(self, snapshot: "Snapshot") -> None:
        self._snapshot = snapshot

    def refusal(self, pod: Pod, verdict: Verdict) -> str:
        """Return the error with which the server would refuse a pod; empty if everything it needs exists."""
        space, account = pod.metadata.namespace, pod.spec.service_account_name
        namespace = self._snapshot.find(Namespace, "", space)
        if namespace is not None and namespace.metadata.deletion_timestamp is not None:
            return f"unable to create new content in namespace {space} because it is being terminated"
        known = self._accounts.get(space, ())
        if account and known and account not in known:
            return f'error looking up service account {space}/{account}: serviceaccount "{account}" not found'
        runtimes = {each.metadata.name for each in self._snapshot.all(RuntimeClass)}
        if runtimes and pod.spec.runtime_class_name and pod.spec.runtime_class_name not in runtimes:
            return f'pod rejected: RuntimeClass "{pod.spec.runtime_class_name}" not found'
        for hook in verdict.required_webhooks:
            why = self._service_problem(*hook.service) if hook.service is not None else ""
            if why:
                return f'Internal error occurred: failed calling webhook "{hook.name}": {why}'
        return ""

    @cached_property
    def _accounts(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for each in self._snapshot.all(ServiceAccount):
            found.setdefault(each.metadata.namespace, set()).add(each.metadata.name)
        return found

    def _service_problem(self, namespace: str, name: str) -> str:
        """Return why the Service of a webhook cannot respond; empty if it can or that is unknown."""
        service = self._snapshot.find(Service, namespace, name)
        if service is None:
            return f"its Service {namespace}/{name} does not exist" if self._snapshot.all(Service) else ""
        if not service.spec.selector or self._snapshot.why_unread("pods"):
            return ""
        selector = label_selector.from_labels(service.spec.selector)
        ready = (
            pod
            for pod in self._snapshot.all(Pod)
            if pod.metadata.namespace == namespace
            and any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
        )
        if any(selector.matches(pod.metadata.labels) for pod in ready):
            return ""
        return f"no pod of its Service {namespace}/{name} is ready"
