"""What the bridge knows of a cluster: its taints, the values of its labels, and on which nodes which rules hold.

Fed by the handlers of informers, before any reconcile looks: after a restart everything is known again before the first
write. Costs follow changes: a node's heartbeat is not looked at, and a rule is judged once for each distinct set of
values that it reads.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from mooring.api.core_v1 import Node, Taint
from mooring.bridge.plan import ClusterFacts, Labels, NodeRule, TermRule, own_labels
from mooring.constraints.lowering import LABEL_PREFIX, LABEL_VALUE

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
        self._reads = constraint.reads if constraint is not None else None

    def holds_on(self, name: str, labels: Labels) -> bool:
        if self._reads is None:
            return self.rule.holds_on(name, labels)
        values = tuple(labels.get(key) for key in self._reads)
        found = self._verdicts.get(values)
        if found is None:
            found = self._verdicts[values] = self.rule.holds_on(name, labels)
        return found

    def look_at(self, node: Node, labels: Labels) -> None:
        """A node is there or has other labels."""
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
        self._nodes: dict[str, Node] = {}
        self._taints: Counter[_TaintKey] = Counter()
        self._taint_of: dict[_TaintKey, Taint] = {}
        self._values: dict[str, Counter[str]] = defaultdict(Counter)
        self._asking: dict[str, tuple[str, ...]] = {}
        """The labels that each pod asks for."""

    # -- nodes

    def node_came(self, node: Node) -> None:
        self._nodes[node.metadata.name] = node
        self._count(node, +1)
        self._judge(node)

    def node_changed(self, old: Node, new: Node) -> None:
        self._nodes[new.metadata.name] = new
        if old.spec.taints != new.spec.taints or old.metadata.labels != new.metadata.labels:
            self._count(old, -1)
            self._count(new, +1)
        if old.metadata.labels != new.metadata.labels:
            self._judge(new)

    def node_left(self, node: Node) -> None:
        self._nodes.pop(node.metadata.name, None)
        self._count(node, -1)
        for rule in self.rules.values():
            if node.metadata.name in rule.stale:
                rule.stale.discard(node.metadata.name)
                self._tell_current(rule)

    def _count(self, node: Node, by: int) -> None:
        is_new = False
        for taint in node.spec.taints:
            key = (taint.key, taint.value, taint.effect, taint.time_added or "")
            is_new = is_new or (by > 0 and not self._taints[key])
            self._taints[key] += by
            self._taint_of[key] = taint
            if not self._taints[key]:
                del self._taints[key], self._taint_of[key]
        for label, value in own_labels(node.metadata.labels).items():
            values = self._values[label]
            values[value] += by
            if not values[value]:
                del values[value]
        if is_new:
            self.on_new_taints()

    def _judge(self, node: Node) -> None:
        labels = own_labels(node.metadata.labels)
        for rule in self.rules.values():
            was_stale = bool(rule.stale)
            rule.look_at(node, labels)
            if was_stale and not rule.stale:
                self._tell_current(rule)
        if self._is_stale(node):
            self.on_stale(node.metadata.name)

    def _is_stale(self, node: Node) -> bool:
        name = node.metadata.name
        if any(name in rule.stale for rule in self.rules.values()):
            return True
        return any(key.startswith(LABEL_PREFIX) and key not in self.rules for key in node.metadata.labels)

    def _tell_current(self, rule: RuleInUse) -> None:
        if not rule.stale:
            for pod in rule.pods:
                self.on_current(pod)

    # -- pods and volumes, by key

    def is_asked(self, pod: str, rules: Iterable[NodeRule]) -> None:
        """Which rules a pod or a volume asks for now."""
        wanted = {rule.label: rule for rule in rules}
        before = self._asking.get(pod, ())
        if before == tuple(wanted):
            return
        self._forget(pod, [label for label in before if label not in wanted])
        for label, rule in wanted.items():
            if label not in self.rules:
                self.rules[label] = self._judged(rule)
            self.rules[label].pods.add(pod)
        if wanted:
            self._asking[pod] = tuple(wanted)
        else:
            self._asking.pop(pod, None)

    def asks_no_more(self, pod: str) -> None:
        self._forget(pod, self._asking.pop(pod, ()))

    def _judged(self, rule: NodeRule) -> RuleInUse:
        found = RuleInUse(rule)
        for node in self._nodes.values():
            found.look_at(node, own_labels(node.metadata.labels))
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
            if not rule.pods:
                del self.rules[label]
                for node in self._nodes.values():
                    if label in node.metadata.labels:
                        self.on_stale(node.metadata.name)

    # -- reading

    def is_current_for(self, pod: str) -> bool:
        """Whether all nodes say what the pod asks for."""
        return all(not self.rules[label].stale for label in self._asking.get(pod, ()) if label in self.rules)

    def rules_in_use(self) -> Iterator[NodeRule]:
        return (each.rule for each in self.rules.values())

    def facts(self) -> ClusterFacts:
        return ClusterFacts(list(self._taint_of.values()), _View(self._values))


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
