"""Advice about objects that a server accepts: problems in expressions, terms and tolerations.

Called by ``linter.py`` with the object as the server would store it. Read next: ``expressions.py``, ``terms.py`` and
``cluster.py``, which have the checks.
"""

import re
from collections.abc import Iterable, Iterator

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.annotations import validate_constraint_annotations
from mooring.admission.pod.rules import PodRules
from mooring.advisor.lint import expressions, rules, specs, terms
from mooring.advisor.lint.cluster import Cluster
from mooring.advisor.lint.rules import Problem
from mooring.advisor.lint.specs import PodSpecAt, TermAt
from mooring.api.core_v1 import Pod
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.constraints import annotations

_RULES = PodRules(options=AdmissionOptions(), is_pod=True)


def _advise_on_annotations(at: PodSpecAt) -> Iterator[Problem]:
    """Yield problems of the constraint annotations (those of the bridge) of a pod or template."""
    if not annotations.has_constraints(at.annotations):
        return
    pod = Pod(metadata=ObjectMeta(annotations=dict(at.annotations)), spec=at.spec)
    path = Path(at.annotations_path)
    for error in validate_constraint_annotations(pod, path, _RULES):
        yield Problem(rules.WRONG_CONSTRAINTS, str(error.field), error.body)
    is_released = annotations.RELEASED in at.annotations
    if not is_released and all(gate.name != annotations.GATE for gate in at.spec.scheduling_gates):
        text = (
            f"there is no scheduling gate {annotations.GATE}: where the bridge's webhook does not add it, "
            "the pods are scheduled without these constraints"
        )
        yield Problem(rules.NO_GATE, f"{at.path}.schedulingGates", text)


_STEP_END = re.compile(r"(?=[.\[])|\Z")


def advise_on_object(obj: Resource, cluster: Cluster | None) -> Iterator[Problem]:
    """Yield problems of an accepted object's CEL expressions, node selector terms, tolerations and annotations."""
    pod = specs.find_pod_spec(obj)
    if pod is not None:
        yield from _advise_on_annotations(pod)
        yield from _advise_on_pod(pod, cluster)
    for at in specs.volume_affinity_terms(obj):
        yield from _advise_on_term(at, {}, cluster)


def without_rejected_fields(refused: Iterable[str], problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems outside the fields that the server rejects, because those must be changed anyway."""
    exactly = set(refused)
    around = {outer for path in exactly for outer in _enclosing_paths(path)}
    for problem in problems:
        if problem.field not in around and exactly.isdisjoint(_enclosing_paths(problem.field)):
            yield problem


def _enclosing_paths(path: str) -> list[str]:
    return [path[: end.start()] for end in _STEP_END.finditer(path)]


def _advise_on_pod(pod: PodSpecAt, cluster: Cluster | None) -> Iterator[Problem]:
    for index, toleration in enumerate(pod.spec.tolerations):
        path = f"{pod.path}.tolerations[{index}]"
        if toleration.expression:
            yield from _advise_on_expression("taint", toleration.expression, f"{path}.expression")
        if cluster:
            yield from cluster.advice_on_toleration(toleration, path)
    for at in specs.node_affinity_terms(pod):
        yield from _advise_on_term(at, pod.spec.node_selector if at.required else {}, cluster)
    if cluster:
        yield from cluster.advice_on_pod(pod)


def _advise_on_term(at: TermAt, node_labels: dict[str, str], cluster: Cluster | None) -> Iterator[Problem]:
    for index, text in enumerate(at.term.match_cel_expressions):
        yield from _advise_on_expression("node", text, f"{at.path}.matchCELExpressions[{index}]")
    found = terms.find_contradiction(at.term, node_labels)
    if found:
        yield Problem(rules.CONTRADICTION, at.path, found)
    if cluster:
        hopeless = found or any(expressions.never_matches(text) for text in at.term.match_cel_expressions)
        # Which nodes a term excludes is worth saying only when it could choose one.
        yield from cluster.advice_on_term(at._replace(required=False) if hopeless else at)


def _advise_on_expression(subject: expressions.Subject, text: str, path: str) -> Iterator[Problem]:
    for rule, _, message in expressions.advise_on_expression(subject, text):
        yield Problem(rule, path, message)
