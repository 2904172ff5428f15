"""Admission in a simulation: the API server's admission, with lookups in the simulated cluster."""

from collections import Counter
from collections.abc import Iterable

from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create
from mooring.admission.pod.known_specs import ValidSpecCache
from mooring.admission.registry import find_strategy
from mooring.admission.strategy import Priority, Request
from mooring.advisor.policies.evaluation import PolicyEvaluator, Verdict
from mooring.advisor.policies.references import References
from mooring.advisor.simulate.clock import VirtualClock
from mooring.advisor.snapshot.admitting import ClusterLookups
from mooring.advisor.snapshot.namespace_rules import NamespaceRules
from mooring.advisor.snapshot.objects import Snapshot
from mooring.api import errors
from mooring.api.core_v1 import Namespace, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.facade import Cluster


class _SimulatedLookups(ClusterLookups):
    """Look up objects of the simulated cluster for admission; infer namespaces and classes that a dump lacks."""

    def __init__(self, cluster: Cluster, rules: NamespaceRules) -> None:
        super().__init__(cluster.objects(PriorityClass), cluster.objects(StorageClass), rules)
        self._cluster = cluster
        self.namespaces: set[str] = set()
        """Namespaces in which there are objects, although the dump lacks the Namespace."""
        self.priorities: dict[str, Priority] = {}
        """PriorityClasses that the dump lacks, inferred from the pods that use them."""

    def namespace_phase(self, name: str) -> str | None:
        known = self._cluster.objects(Namespace)
        found = known.get(name)
        if found is not None:
            return found.status.phase or "Active"
        return "Active" if not known or name in self.namespaces or name == "default" else None

    def priority_class(self, name: str) -> Priority | None:
        is_missing = name not in self._priorities
        return self.priorities[name] if is_missing and name in self.priorities else super().priority_class(name)


class Admission:
    """Admits objects of the simulated cluster, and counts them in its quotas."""

    def __init__(self, options: AdmissionOptions, cluster: Cluster, clock: VirtualClock, rules: NamespaceRules) -> None:
        self._options = options
        self._clock = clock
        self.rules = rules
        """The quotas and limits of namespaces; created and deleted objects change the usage."""
        self._lookups = _SimulatedLookups(cluster, rules)
        self._known_specs = ValidSpecCache()
        self.policies = PolicyEvaluator(())
        """The admission policies of the cluster."""
        self.references = References(Snapshot(""))
        """The objects that new pods refer to, and webhooks that cannot respond."""
        self.webhooks: Counter[str] = Counter()
        """The webhooks that a server would have called, with the number of calls."""

    def infer_missing(self, objects: Iterable[Resource]) -> None:
        """Assume for admission that the namespaces and PriorityClasses of objects exist, which dumps may lack."""
        for obj in objects:
            self._lookups.namespaces.add(obj.metadata.namespace)
            if isinstance(obj, Pod) and obj.spec.priority_class_name and obj.spec.priority is not None:
                name, policy = obj.spec.priority_class_name, obj.spec.preemption_policy or "PreemptLowerPriority"
                self._lookups.priorities[name] = Priority(name, obj.spec.priority, policy)

    def admit(self, obj: Resource) -> str:
        """Admit an object in place and count it in quotas; return the rejection message, empty if it is accepted."""
        strategy = find_strategy(type(obj))
        if strategy is None:
            return ""
        namespace = obj.metadata.namespace if strategy.namespaced else ""
        request = Request(
            options=self._options,
            lookups=self._lookups,
            now=self._clock.now(),
            namespace=namespace,
            known_specs=self._known_specs,
        )
        try:
            admit_create(obj, request)
        except errors.StatusError as refusal:
            return str(refusal)
        verdict = Verdict() if self.policies.is_idle else self._evaluate_policies(obj)
        refused = verdict.refused
        if not refused and isinstance(obj, Pod):
            refused = self.references.refusal(obj, verdict)
        return refused or self.rules.charge(obj)

    def _evaluate_policies(self, obj: Resource) -> Verdict:
        verdict = self.policies.verdict(obj)
        self.webhooks.update(verdict.webhooks)
        if verdict.changed is not None:
            for name in obj.__struct_fields__:
                setattr(obj, name, getattr(verdict.changed, name))
        return verdict
