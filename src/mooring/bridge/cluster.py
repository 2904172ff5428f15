"""What the bridge knows of a cluster: its taints, the values of its labels, and on which nodes which rules hold.

Fed by the handlers of informers, before any reconcile looks: after a restart everything is known again before the first
write. Costs follow changes: a node's heartbeat is not looked at, a label that changes concerns the rules that read it,
and a rule is judged once for each distinct set of values that it reads.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property

from mooring.api.core_v1 import Node, Taint
from mooring.bridge.plan import ClusterFacts, Labels, NodeRule, TermRule, own_labels
from mooring.constraints.lowering import LABEL_PREFIX, LABEL_VALUE

_MOST_VERDICTS = 16_384
MAX_LABELS_PER_NAMESPACE = 100
MAX_LABELS_PER_NODE = 1000
"""About 80 kB of a Node: kubelets must be able to go on writing theirs."""
_TaintKey = tuple[str, str, str, str]


class RuleInUse:
    """A rule that pods ask for, and the nodes whose label does not say yet whether they meet it."""

    def __init__(self, rule: NodeRule) -> None:
        self.rule = rule
        self.pods: set[str] = set()
        """Who asks for it, by key."""
        self.stale: set[str] = set()
        """Nodes that have to be written."""
        self._verdicts: dict[tuple[str | None, ...], bool] = {}
        constraint = rule.constraint if isinstance(rule, TermRule) else None
        self.reads = constraint.reads if constraint is not None else None
        """The keys of the labels that decide; None when any of them may."""

    @cached_property
    def matters_by(self) -> tuple[str | None, ...]:
        """The labels by which a node can meet it; None when it may be met without any of them."""
        return (None,) if self.reads is None or self.holds_on("", {}) else self.reads

    def holds_on(self, name: str, labels: Labels) -> bool:
        if self.reads is None:
            return self.rule.holds_on(name, labels)
        values = tuple(labels.get(key) for key in self.reads)
        found = self._verdicts.get(values)
        if found is None:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()  # labels that change all the time must not fill the memory
            found = self._verdicts[values] = self.rule.holds_on(name, labels)
        return found

    def look_at(self, node: Node, labels: Labels) -> None:
        """A node is there or has other labels; `labels` are those that are not the bridge's."""
        name = node.metadata.name
        is_said = node.metadata.labels.get(self.rule.label) == LABEL_VALUE
        if is_said == self.holds_on(name, labels):
            self.stale.discard(name)
        else:
            self.stale.add(name)


class BridgedCluster:
    """Taints, values and rules. Tells `on_new_taints` and `on_stale` what has to be looked at again."""

    def __init__(self) -> None:
        self.on_new_taints: Callable[[], None] = lambda: None
        """There are taints that no pod was asked about."""
        self.on_stale: Callable[[str], None] = lambda _node: None
        """A node's labels have to be written."""
        self.on_current: Callable[[str], None] = lambda _pod: None
        """The labels that a pod waits for are on all nodes."""
        self.rules: dict[str, RuleInUse] = {}
        self._readers: dict[str | None, set[str]] = defaultdict(set)
        """The rules that read a label, by its key; under None those that may hold on a node without any of theirs."""
        self._bearing: dict[str, set[str]] = defaultdict(set)
        """The nodes that have a label, by its key."""
        self._stale_on: dict[str, set[str]] = defaultdict(set)
        """The rules whose labels have to be written to a node."""
        self._nodes: dict[str, Node] = {}
        self._own: dict[str, dict[str, str]] = {}
        """The labels of each node that are not the bridge's."""
        self._taints: Counter[_TaintKey] = Counter()
        self._taint_of: dict[_TaintKey, Taint] = {}
        self._values: dict[str, Counter[str]] = defaultdict(Counter)
        self._facts: ClusterFacts | None = None
        self._asking: dict[str, tuple[str, ...]] = {}
        """The labels that each pod asks for."""
        self._namespaces: dict[str, Counter[str]] = defaultdict(Counter)
        """The labels that the pods of a namespace ask for, with how many do."""
        self._over_limit: set[str] = set()
        """Pods whose labels are beyond a limit."""

    # -- nodes

    def node_came(self, node: Node) -> None:
        name = node.metadata.name
        self._nodes[name] = node
        self._own[name] = own_labels(node.metadata.labels)
        self._count_labels(self._own[name].items(), +1)
        self._bear((), node.metadata.labels, name)
        self._judge(node, self._concerned({}, node.metadata.labels) | self._readers[None])
        self._count_taints(node, +1)

    def node_changed(self, old: Node, new: Node) -> None:
        name = new.metadata.name
        self._nodes[name] = new
        if old.metadata.labels != new.metadata.labels:
            before, now = self._own[name], own_labels(new.metadata.labels)
            self._own[name] = now
            self._count_labels(before.items() - now.items(), -1)
            self._count_labels(now.items() - before.items(), +1)
            self._bear(old.metadata.labels, new.metadata.labels, name)
            self._judge(new, self._concerned(old.metadata.labels, new.metadata.labels))
        if old.spec.taints != new.spec.taints:
            self._count_taints(old, -1)
            self._count_taints(new, +1)

    def node_left(self, node: Node) -> None:
        name = node.metadata.name
        self._nodes.pop(name, None)
        self._count_labels(self._own.pop(name, {}).items(), -1)
        self._count_taints(node, -1)
        self._bear(node.metadata.labels, (), name)
        for label in self._stale_on.pop(name, set()):
            self.rules[label].stale.discard(name)
            self._tell_current(self.rules[label])

    def _bear(self, old: Collection[str], new: Collection[str], name: str) -> None:
        for key in set(old) - set(new):
            self._bearing[key].discard(name)
        for key in set(new) - set(old):
            self._bearing[key].add(name)

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

    def _concerned(self, old: Labels, new: Labels) -> set[str]:
        """The rules whose verdict, or whose label, may be another after a change of labels."""
        changed = {key for key, _ in old.items() ^ new.items()}
        found = {key for key in changed if key in self.rules}
        own = {key for key in changed if not key.startswith(LABEL_PREFIX)}
        for key in (*own, *([None] if own else [])):
            found |= self._readers.get(key, set())
        return found

    def _judge(self, node: Node, concerned: Iterable[str]) -> None:
        name = node.metadata.name
        for label in concerned:
            rule = self.rules[label]
            was_stale = name in rule.stale
            self._look(rule, name)
            if was_stale and not rule.stale:
                self._tell_current(rule)
        if self.changes_on(name):
            self.on_stale(name)

    def _look(self, rule: RuleInUse, name: str) -> None:
        rule.look_at(self._nodes[name], self._own[name])
        (self._stale_on[name].add if name in rule.stale else self._stale_on[name].discard)(rule.rule.label)

    def _tell_current(self, rule: RuleInUse) -> None:
        if not rule.stale:
            for pod in rule.pods:
                self.on_current(pod)

    # -- pods and volumes, by key

    def is_asked(self, pod: str, rules: Iterable[NodeRule], *, is_limited: bool = False) -> str | None:
        """Register the rules that a pod or a volume asks for; return why not, where `is_limited` and beyond a limit."""
        wanted = {rule.label: rule for rule in rules}
        before = self._asking.get(pod, ())
        if before == tuple(wanted):
            return None
        excess = self._excess(pod, wanted) if is_limited else None
        if excess is not None:
            self.asks_no_more(pod)
            self._over_limit.add(pod)
            return excess
        self._over_limit.discard(pod)
        self._forget(pod, [label for label in before if label not in wanted])
        labels = self._namespaces[pod.partition("/")[0]]
        for label, rule in wanted.items():
            if label not in self.rules:
                self.rules[label] = self._judged(rule)
            if pod not in self.rules[label].pods:
                self.rules[label].pods.add(pod)
                labels[label] += 1
        if wanted:
            self._asking[pod] = tuple(wanted)
        else:
            self._asking.pop(pod, None)
        return None

    def _excess(self, pod: str, wanted: Collection[str]) -> str | None:
        labels = self._namespaces.get(pod.partition("/")[0], Counter())
        if len(labels.keys() | set(wanted)) > MAX_LABELS_PER_NAMESPACE:
            return f"the pods of a namespace may ask for {MAX_LABELS_PER_NAMESPACE} distinct node constraints"
        if len(self.rules.keys() | set(wanted)) > MAX_LABELS_PER_NODE:
            return f"the pods of a cluster may ask for {MAX_LABELS_PER_NODE} distinct node constraints"
        return None

    def asks_no_more(self, pod: str) -> None:
        self._over_limit.discard(pod)
        self._forget(pod, self._asking.pop(pod, ()))

    def _judged(self, rule: NodeRule) -> RuleInUse:
        found = RuleInUse(rule)
        keys = found.matters_by
        for key in keys:
            self._readers[key].add(rule.label)
        near = self._nodes.keys() if None in keys else set().union(*(self._bearing.get(key, ()) for key in keys if key))
        for name in near | self._bearing.get(rule.label, set()):
            self._look(found, name)
        for name in found.stale:
            self.on_stale(name)
        return found

    def _forget(self, pod: str, labels: Iterable[str]) -> None:
        """What nobody asks for any more is taken from the nodes."""
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
                for key in rule.matters_by:
                    self._readers[key].discard(label)
                for name in rule.stale:
                    self._stale_on[name].discard(label)
                for node in self._nodes.values():
                    if label in node.metadata.labels:
                        self.on_stale(node.metadata.name)

    # -- reading

    def is_current_for(self, pod: str) -> bool:
        """Whether all nodes say what the pod asks for."""
        return all(not self.rules[label].stale for label in self._asking.get(pod, ()) if label in self.rules)

    def changes_on(self, name: str) -> dict[str, str | None]:
        """What of the bridge's labels has to change on a node: the value to set, or None to take one away."""
        if name not in self._nodes:
            return {}
        labels = self._own[name]
        changes: dict[str, str | None] = {
            label: LABEL_VALUE if self.rules[label].holds_on(name, labels) else None
            for label in self._stale_on.get(name, ())
        }
        there = self._nodes[name].metadata.labels
        return changes | {key: None for key in there if key.startswith(LABEL_PREFIX) and key not in self.rules}

    def facts(self) -> ClusterFacts:
        if self._facts is None:
            self._facts = ClusterFacts(list(self._taint_of.values()), _View(self._values))
        return self._facts


class _View(Mapping[str, Collection[str]]):
    """Values by label, without copying them."""

    def __init__(self, counted: Mapping[str, Counter[str]]) -> None:
        self._counted = counted

    def __getitem__(self, key: str) -> Collection[str]:
        return self._counted[key].keys() if key in self._counted else ()

    def __iter__(self) -> Iterator[str]:
        return iter(self._counted)

    def __len__(self) -> int:
        return len(self._counted)
