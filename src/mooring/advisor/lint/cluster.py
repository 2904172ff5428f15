"""Compare manifests with the nodes of a cluster, read from the output of `kubectl get nodes -o yaml`.

`read_nodes` reads such a file; `Cluster` has the checks for the linter. Results are cached, because manifests repeat
the same few terms and expressions. Called by ``advice.py``; the command line reads the file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from mooring.advisor.expressions import taint_variable
from mooring.advisor.lint import documents, expressions, rules
from mooring.advisor.lint.rules import Problem
from mooring.advisor.lint.specs import PodSpecAt, TermAt
from mooring.advisor.node_facts import STATE_TAINTS, NodeFacts, ValueUse
from mooring.api import codec, core_v1, label_selector
from mooring.api.quoting import go_quote
from mooring.cel.errors import CelError
from mooring.constraints import node_selector, semver, tolerations
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.requests import requests_of

T = TypeVar("T")


class _NodeMatcher(Protocol):
    def matches(self, labels: Mapping[str, str], name: str) -> bool: ...


class NodesError(ValueError):
    """The file does not contain nodes; the message says why."""


def read_nodes(text: str) -> tuple[core_v1.Node, ...]:
    """Read nodes from YAML or JSON: a list, or documents. Raise `NodesError`."""
    found = []
    try:
        for piece in documents.split_pieces(text):
            for tree in documents.parse_trees(piece.text):
                for item in documents.list_objects(tree):
                    if not isinstance(item.tree, dict) or item.tree.get("kind") != "Node":
                        raise NodesError("it has something that is not a Node")
                    found.append(codec.decode_tree(item.tree, core_v1.Node, codec.FieldValidation.IGNORE).object)
    except (codec.DecodeError, RecursionError) as error:
        raise NodesError(str(error)) from error
    if not found:
        raise NodesError("there are no nodes in it")
    return tuple(found)


class Cluster:
    """Compares node selector terms, tolerations and pods of manifests with the nodes of a cluster."""

    def __init__(self, nodes: Sequence[core_v1.Node], options: ConstraintOptions) -> None:
        self._nodes = nodes
        self._options = options
        self._facts = NodeFacts(nodes)
        self._cached: dict[tuple[str, bytes], tuple[Problem, ...]] = {}

    # -- terms

    def advice_on_term(self, at: TermAt) -> Iterator[Problem]:
        """Yield problems of a node selector term: unreadable label values, failing expressions, no matching node."""
        for index, entry in enumerate(at.term.match_expressions):
            yield from self._check_once(f"{at.path}.matchExpressions[{index}]", self._check_requirement, entry)
        for index, expression in enumerate(at.term.match_cel_expressions):
            path = f"{at.path}.matchCELExpressions[{index}]"
            yield from self._check_once(path, self._check_node_expression, expression)
        if at.required:
            yield from self._check_once(at.path, self._check_required_term, at.term)

    def _check_requirement(self, entry: core_v1.NodeSelectorRequirement) -> Iterator[Problem]:
        values = self._facts.labels.get(entry.key, {})
        if entry.operator in ("Gt", "Lt"):
            yield from _unreadable_values(values, "label", rules.NOT_A_NUMBER, label_selector.parse_lax_int64)
        elif entry.operator in semver.OPERATORS:
            yield from _unreadable_values(values, "label", rules.NOT_A_VERSION, semver.parse_tolerant_or_none)

    def _check_node_expression(self, expression: str) -> Iterator[Problem]:
        inputs = ((node.metadata.name, {"labels": node.metadata.labels}) for node in self._nodes)
        yield from self._evaluation_failures("node", expression, inputs, "nodes")

    def _check_required_term(self, term: core_v1.NodeSelectorTerm) -> Iterator[Problem]:
        compiled = node_selector.compile_term(term, self._options)
        if not compiled or not any(_selects_node(compiled, node) for node in self._nodes):
            yield Problem(rules.NO_NODE, "", f"the term excludes every one of the {len(self._nodes)} nodes")

    # -- tolerations

    def advice_on_toleration(self, toleration: core_v1.Toleration, path: str) -> Iterator[Problem]:
        """Yield problems of a toleration on the nodes: unreadable taint values, failing expressions."""
        yield from self._check_once(path, self._check_toleration, toleration)

    def _check_toleration(self, toleration: core_v1.Toleration) -> Iterator[Problem]:
        if toleration.expression:
            taints = (
                (f"{node.metadata.name} {each.key}", taint_variable(each))
                for node in self._nodes
                for each in node.spec.taints
            )
            yield from self._evaluation_failures("taint", toleration.expression, taints, "taints")
            return
        values = self._facts.taints.get(toleration.key, {})
        if toleration.operator in tolerations.NUMERIC:
            yield from _unreadable_values(values, "taint", rules.NOT_A_NUMBER, tolerations.parse_canonical_int64)
        elif toleration.operator in semver.OPERATORS:
            yield from _unreadable_values(values, "taint", rules.NOT_A_VERSION, semver.parse_tolerant_or_none)

    # -- pods

    def advice_on_pod(self, pod: PodSpecAt) -> Iterator[Problem]:
        """Yield problems of a pod that fits on no node, by `nodeSelector`, node affinity, taints or requests."""
        spec = pod.spec
        deciding = (spec.node_selector, spec.affinity and spec.affinity.node_affinity, spec.tolerations)
        if not spec.node_name:
            yield from self._check_once(pod.path, self._check_pod, spec, deciding)
            if self._facts.largest:  # a file of nodes may leave their resources out
                yield from _move_problems_to_path(pod.path, self._check_requests(spec))

    def _check_requests(self, spec: core_v1.PodSpec) -> Iterator[Problem]:
        for resource, amount in requests_of(core_v1.Pod(spec=spec), pod_level=True).items():
            most, name = self._facts.largest.get(resource, (None, ""))
            if most is None:
                meant = _suggestion_text(self._facts.similar_resource(resource))
                yield Problem(rules.TOO_LARGE, "", f"the pod asks for {amount} {resource}, which no node has{meant}")
            elif amount > most:
                yield Problem(
                    rules.TOO_LARGE,
                    "",
                    f"the pod asks for {amount} {resource}, and the largest node, {name}, has {most}",
                )

    def _check_pod(self, spec: core_v1.PodSpec) -> Iterator[Problem]:
        wanted = label_selector.from_labels(spec.node_selector)
        if not any(wanted.matches(node.metadata.labels) for node in self._nodes):
            hint = self._spelling_hint(spec.node_selector)
            text = f"nodeSelector excludes every one of the {len(self._nodes)} nodes{hint}"
            yield Problem(rules.NO_NODE, "nodeSelector", text)
            return
        required = node_selector.required_affinity(spec, self._options)
        eligible = [node for node in self._nodes if _selects_node(required, node)]
        if not eligible:
            affinity = required.affinity
            if affinity and any(_selects_node(affinity, node) for node in self._nodes):
                yield Problem(rules.NO_PLACE, "", "no node meets both nodeSelector and a required term")
            return
        index = tolerations.index_tolerations(spec.tolerations, self._options)
        blocking = [
            index.find_untolerated(taint for taint in node.spec.taints if not taint.key.startswith(STATE_TAINTS))
            for node in eligible
        ]
        first = blocking[0]
        if first and all(blocking):
            text = f"all {len(eligible)} nodes that could be chosen have taints that are not tolerated"
            yield Problem(
                rules.NO_PLACE, "", f"{text}, such as {{{first.key}: {first.value}}} on {eligible[0].metadata.name}"
            )

    # -- how

    def _spelling_hint(self, wanted: Mapping[str, str]) -> str:
        for key, value in wanted.items():
            if key not in self._facts.labels:
                return _suggestion_text(self._facts.similar_label(key))
            if value not in self._facts.labels[key]:
                return _suggestion_text(self._facts.similar_value(key, value))
        return ""

    def _evaluation_failures(
        self, subject: expressions.Subject, expression: str, inputs: Iterable[tuple[str, object]], things: str
    ) -> Iterator[Problem]:
        program = expressions.compile_expression(subject, expression)
        if program is None:
            return
        failures: list[tuple[str, str]] = []
        total = 0
        for name, value in inputs:
            total += 1
            try:
                program.evaluate({subject: value})
            except CelError as error:
                failures.append((name, str(error)))
        if failures:
            name, cause = failures[0]
            text = f"the expression fails on {len(failures)} of {total} {things}, such as {name}: {cause}"
            yield Problem(rules.FAILS_ON_NODES, "expression" if subject == "taint" else "", text)

    def _check_once(
        self, path: str, check: Callable[[T], Iterator[Problem]], argument: T, deciding: object = None
    ) -> Iterator[Problem]:
        """Yield the problems at a path, cached by the argument of the check, or by the parts of it that decide."""
        key = (check.__name__, msgspec.json.encode(argument if deciding is None else deciding))
        found = self._cached.get(key)
        if found is None:
            found = self._cached[key] = tuple(check(argument))
        return _move_problems_to_path(path, found)


def _suggestion_text(word: str) -> str:
    return f"; did you mean {word}?" if word else ""


def _selects_node(selection: _NodeMatcher, node: core_v1.Node) -> bool:
    return selection.matches(node.metadata.labels, node.metadata.name)


def _unreadable_values(
    values: Mapping[str, ValueUse], what: str, rule: rules.Rule, read: Callable[[str], object | None]
) -> Iterator[Problem]:
    bad = [value for value in values if read(value) is None]
    if bad:
        kind = "numbers" if rule is rules.NOT_A_NUMBER else "versions"
        text = f"{len(bad)} of {len(values)} values of the {what} on nodes cannot be read as {kind} and never match"
        yield Problem(rule, "", f"{text}, such as {go_quote(bad[0])} on {values[bad[0]].node}")


def _move_problems_to_path(path: str, problems: Iterable[Problem]) -> Iterator[Problem]:
    for rule, field, message in problems:
        yield Problem(rule, f"{path}.{field}" if field else path, message)
