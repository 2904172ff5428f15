"""Track taints, label values, and which nodes meet which rules; label the nodes that meet a rule.

Informer handlers feed it before the first reconcile, so a restart loses nothing. Work follows changes: heartbeats are
ignored, a changed label reevaluates the rules that read it, and a rule is evaluated once per distinct set of values.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import cached_property

from mooring.api import errors
from mooring.api.core_v1 import Node, PersistentVolume, Taint
from mooring.bridge.plan import ClusterFacts, Labels, NodeRule, TermRule, own_labels, required_by_volume
from mooring.client import Informer, PatchType
from mooring.constraints.annotations import AnnotationError
from mooring.constraints.lowering.terms import LABEL_PREFIX, LABEL_VALUE
from mooring.controllers.controller import Context, Controller

_MAX_VERDICTS = 16_384
MAX_LABELS_PER_NAMESPACE = 100
MAX_LABELS_PER_NODE = 1000
"""The maximum number of labels on a node: about 80 kB, which leaves room for what kubelets write."""
_TaintKey = tuple[str, str, str, str]


class RuleInUse:
    """A rule that pods or volumes require, and the nodes whose label for it is not up to date."""

    def __init__(self, rule: NodeRule) -> None:
        self.rule = rule
        self.pods: set[str] = set()
        """Keys of the pods and volumes that require it."""
        self.stale: set[str] = set()
        self._verdicts: dict[tuple[str | None, ...], bool] = {}
        constraint = rule.constraint if isinstance(rule, TermRule) else None
        self.reads = constraint.reads if constraint is not None else None
        """Keys of the labels that the rule reads; None if it may read any."""

    @cached_property
    def deciding_labels(self) -> tuple[str | None, ...]:
        """Return the label keys of which a node needs at least one to meet the rule; (None,) if it may need none."""
        return (None,) if self.reads is None or self.is_met_by("", {}) else self.reads

    def is_met_by(self, name: str, labels: Labels) -> bool:
        if self.reads is None:
            return self.rule.is_met_by(name, labels)
        values = tuple(labels.get(key) for key in self.reads)
        found = self._verdicts.get(values)
        if found is None:
            if len(self._verdicts) >= _MAX_VERDICTS:
                self._verdicts.clear()  # values that keep changing must not fill the memory
            found = self._verdicts[values] = self.rule.is_met_by(name, labels)
        return found

    def reevaluate(self, node: Node, labels: Labels) -> None:
        """Record whether a node's label for the rule is stale; `labels` are its labels without the bridge's own."""
        name = node.metadata.name
        is_labelled = node.metadata.labels.get(self.rule.label) == LABEL_VALUE
        if is_labelled == self.is_met_by(name, labels):
            self.stale.discard(name)
        else:
            self.stale.add(name)


class BridgedCluster:
    """The cluster's taints, label values and required rules, kept current from changes; calls back on some changes."""

    def __init__(self) -> None:
        self.on_new_taints: Callable[[], None] = lambda: None
        """Called when a taint appears that pods have no tolerations for yet."""
        self.on_stale: Callable[[str], None] = lambda _node: None
        """Called with a node whose labels must be written."""
        self.on_current: Callable[[str], None] = lambda _pod: None
        """Called with a pod when all nodes have the labels that it requires."""
        self.rules: dict[str, RuleInUse] = {}
        self._readers: dict[str | None, set[str]] = defaultdict(set)
        """Rules by the label that they read; under None those that a node may meet without any label."""
        self._nodes_by_label: dict[str, set[str]] = defaultdict(set)
        self._stale_on: dict[str, set[str]] = defaultdict(set)
        """Rules whose label is stale, by node."""
        self._nodes: dict[str, Node] = {}
        self._foreign_labels: dict[str, dict[str, str]] = {}
        """Labels of each node without the bridge's own."""
        self._taints: Counter[_TaintKey] = Counter()
        self._taint_of: dict[_TaintKey, Taint] = {}
        self._values: dict[str, Counter[str]] = defaultdict(Counter)
        self._facts: ClusterFacts | None = None
        self._required_labels: dict[str, tuple[str, ...]] = {}
        self._namespaces: dict[str, Counter[str]] = defaultdict(Counter)
        """Labels that the pods of a namespace require, with the number of pods."""
        self._over_limit: set[str] = set()

    # -- nodes

    def add_node(self, node: Node) -> None:
        name = node.metadata.name
        self._nodes[name] = node
        self._foreign_labels[name] = own_labels(node.metadata.labels)
        self._count_labels(self._foreign_labels[name].items(), +1)
        self._index_labels((), node.metadata.labels, name)
        self._evaluate_rules(node, self._find_affected_rules({}, node.metadata.labels) | self._readers[None])
        self._count_taints(node, +1)

    def update_node(self, old: Node, new: Node) -> None:
        name = new.metadata.name
        self._nodes[name] = new
        if old.metadata.labels != new.metadata.labels:
            before, now = self._foreign_labels[name], own_labels(new.metadata.labels)
            self._foreign_labels[name] = now
            self._count_labels(before.items() - now.items(), -1)
            self._count_labels(now.items() - before.items(), +1)
            self._index_labels(old.metadata.labels, new.metadata.labels, name)
            self._evaluate_rules(new, self._find_affected_rules(old.metadata.labels, new.metadata.labels))
        if old.spec.taints != new.spec.taints:
            self._count_taints(old, -1)
            self._count_taints(new, +1)

    def remove_node(self, node: Node) -> None:
        name = node.metadata.name
        self._nodes.pop(name, None)
        self._count_labels(self._foreign_labels.pop(name, {}).items(), -1)
        self._count_taints(node, -1)
        self._index_labels(node.metadata.labels, (), name)
        for label in self._stale_on.pop(name, set()):
            self.rules[label].stale.discard(name)
            self._notify_if_current(self.rules[label])

    def _index_labels(self, old: Collection[str], new: Collection[str], name: str) -> None:
        for key in set(old) - set(new):
            self._nodes_by_label[key].discard(name)
        for key in set(new) - set(old):
            self._nodes_by_label[key].add(name)

    def _count_labels(self, labels: Iterable[tuple[str, str]], by: int) -> None:
        for label, value in labels:
            values = self._values[label]
            if value not in values:
                self._facts = None
            values[value] += by
            if not values[value]:
                del values[value]
                self._facts = None

    def _count_taints(self, node: Node, by: int) -> None:
        is_new = False
        for taint in node.spec.taints:
            key = (taint.key, taint.value, taint.effect, taint.time_added or "")
            is_new = is_new or (by > 0 and not self._taints[key])
            self._taints[key] += by
            self._taint_of[key] = taint
            if not self._taints[key]:
                del self._taints[key], self._taint_of[key]
        if node.spec.taints:
            self._facts = None
        if is_new:
            self.on_new_taints()

    def _find_affected_rules(self, old: Labels, new: Labels) -> set[str]:
        changed = {key for key, _ in old.items() ^ new.items()}
        found = {key for key in changed if key in self.rules}
        own = {key for key in changed if not key.startswith(LABEL_PREFIX)}
        for key in (*own, *([None] if own else [])):
            found |= self._readers.get(key, set())
        return found

    def _evaluate_rules(self, node: Node, concerned: Iterable[str]) -> None:
        name = node.metadata.name
        for label in concerned:
            rule = self.rules[label]
            was_stale = name in rule.stale
            self._reevaluate(rule, name)
            if was_stale and not rule.stale:
                self._notify_if_current(rule)
        if self.changes_on(name):
            self.on_stale(name)

    def _reevaluate(self, rule: RuleInUse, name: str) -> None:
        rule.reevaluate(self._nodes[name], self._foreign_labels[name])
        (self._stale_on[name].add if name in rule.stale else self._stale_on[name].discard)(rule.rule.label)

    def _notify_if_current(self, rule: RuleInUse) -> None:
        if not rule.stale:
            for pod in rule.pods:
                self.on_current(pod)

    # -- pods and volumes, by key

    def register(self, pod: str, rules: Iterable[NodeRule], limit: int = 0) -> str | None:
        """Register the rules that a pod requires; return the reason if they exceed `limit` times the maximum."""
        wanted = {rule.label: rule for rule in rules}
        before = self._required_labels.get(pod, ())
        if before == tuple(wanted):
            return None
        excess = self._describe_excess(pod, wanted, limit) if limit else None
        if excess is not None:
            self.unregister(pod)
            self._over_limit.add(pod)
            return excess
        self._over_limit.discard(pod)
        self._drop_requirements(pod, [label for label in before if label not in wanted])
        labels = self._namespaces[pod.partition("/")[0]]
        for label, rule in wanted.items():
            if label not in self.rules:
                self.rules[label] = self._create_rule_in_use(rule)
            if pod not in self.rules[label].pods:
                self.rules[label].pods.add(pod)
                labels[label] += 1
        if wanted:
            self._required_labels[pod] = tuple(wanted)
        else:
            self._required_labels.pop(pod, None)
        return None

    def _describe_excess(self, pod: str, wanted: Collection[str], limit: int) -> str | None:
        labels = self._namespaces.get(pod.partition("/")[0], Counter())
        for known, most, where in (
            (labels.keys(), MAX_LABELS_PER_NAMESPACE * limit, "namespace"),
            (self.rules.keys(), MAX_LABELS_PER_NODE * limit, "cluster"),
        ):
            if len(known | set(wanted)) > most:
                return f"the pods of a {where} may ask for {most} distinct node constraints"
        return None

    def unregister(self, pod: str) -> None:
        self._over_limit.discard(pod)
        self._drop_requirements(pod, self._required_labels.pop(pod, ()))

    def _create_rule_in_use(self, rule: NodeRule) -> RuleInUse:
        found = RuleInUse(rule)
        keys = found.deciding_labels
        for key in keys:
            self._readers[key].add(rule.label)
        near = (
            self._nodes.keys()
            if None in keys
            else set().union(*(self._nodes_by_label.get(key, ()) for key in keys if key))
        )
        for name in near | self._nodes_by_label.get(rule.label, set()):
            self._reevaluate(found, name)
        for name in found.stale:
            self.on_stale(name)
        return found

    def _drop_requirements(self, pod: str, labels: Iterable[str]) -> None:
        for label in labels:
            rule = self.rules.get(label)
            if rule is None:
                continue
            rule.pods.discard(pod)
            namespace = pod.partition("/")[0]
            labels = self._namespaces[namespace]
            labels[label] -= 1
            if labels[label] <= 0:
                del labels[label]
                if not labels:
                    del self._namespaces[namespace]
                for waiting in self._over_limit:
                    self.on_current(waiting)
            if not rule.pods:
                del self.rules[label]
                for key in rule.deciding_labels:
                    self._readers[key].discard(label)
                for name in rule.stale:
                    self._stale_on[name].discard(label)
                for node in self._nodes.values():
                    if label in node.metadata.labels:
                        self.on_stale(node.metadata.name)

    # -- reading

    def is_current_for(self, pod: str) -> bool:
        """Return whether all nodes have the labels that the pod requires."""
        return all(not self.rules[label].stale for label in self._required_labels.get(pod, ()) if label in self.rules)

    def changes_on(self, name: str) -> dict[str, str | None]:
        """Return the bridge's labels to set on a node, or to remove (None)."""
        if name not in self._nodes:
            return {}
        labels = self._foreign_labels[name]
        changes: dict[str, str | None] = {
            label: LABEL_VALUE if self.rules[label].is_met_by(name, labels) else None
            for label in self._stale_on.get(name, ())
        }
        there = self._nodes[name].metadata.labels
        return changes | {key: None for key in there if key.startswith(LABEL_PREFIX) and key not in self.rules}

    def facts(self) -> ClusterFacts:
        if self._facts is None:
            values = {key: counted.keys() for key, counted in self._values.items()}
            self._facts = ClusterFacts(list(self._taint_of.values()), values)
        return self._facts


_BATCH_SECONDS = 0.1
"""Rules that appear within this time are written to a node in one patch."""


class NodeLabelController(Controller):
    """The controller that writes the bridge's labels of nodes; reconciles nodes by name."""

    name = "bridge-nodes"

    def __init__(self, context: Context, cluster: BridgedCluster) -> None:
        super().__init__(context)
        self._cluster = cluster
        nodes: Informer[Node] = context.informers.of(Node)
        nodes.add_handler(added=cluster.add_node, updated=cluster.update_node, deleted=cluster.remove_node)
        volumes: Informer[PersistentVolume] = context.informers.of(PersistentVolume)
        self.follow(volumes, self._register_volume)
        volumes.add_handler(deleted=lambda volume: cluster.unregister(_volume_key(volume)))
        cluster.on_stale = lambda name: self.queue.add_after(name, _BATCH_SECONDS)

    def _register_volume(self, volume: PersistentVolume) -> None:
        """Register the rules of a volume; an invalid annotation registers none, so that no node gets the label."""
        rules: list[NodeRule] = []
        with suppress(AnnotationError):
            rules = required_by_volume(volume)
        self._cluster.register(_volume_key(volume), rules)

    async def reconcile(self, key: str) -> None:
        changes = self._cluster.changes_on(key)  # also on a terminating node: pods wait for all nodes
        if changes:
            body = {"metadata": {"labels": changes}}
            with suppress(errors.NotFound):
                await self.client.patch_unread(Node, key, body, type=PatchType.MERGE)


def _volume_key(volume: PersistentVolume) -> str:
    return f"persistentvolumes/{volume.metadata.namespace}/{volume.metadata.name}"
