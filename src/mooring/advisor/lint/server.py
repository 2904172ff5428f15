"""Run the API server's checks for the creation of an object, and return its errors and warnings as problems.

The steps are the server's own: find the kind, decode strictly, convert, admit. Objects that the manifest refers to,
such as its namespace and priority class, are assumed to exist. Called by ``linter.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create, admit_update
from mooring.admission.registry import find_strategy
from mooring.admission.strategy import NoCluster, Priority, Request
from mooring.advisor.lint import rules
from mooring.advisor.lint.options import LintOptions
from mooring.advisor.lint.rules import Problem
from mooring.api import codec, errors
from mooring.api.base import copy_of
from mooring.api.codec import DecodeError, FieldValidation, WrongFieldsError
from mooring.api.core_v1 import Pod
from mooring.api.json_tree import MAX_BYTES
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource


@dataclass(frozen=True, slots=True)
class CreateCheck:
    """The result of the server's create checks: the problems, and the object as decoded and defaulted."""

    problems: list[Problem]
    object: Resource | None = None


class _PermissiveLookups(NoCluster):
    def __init__(self, obj: Resource) -> None:
        self._pod = obj if isinstance(obj, Pod) else None

    def priority_class(self, name: str) -> Priority | None:
        found = super().priority_class(name)
        if found is not None or self._pod is None:
            return found
        spec = self._pod.spec
        return Priority(name, spec.priority or 0, spec.preemption_policy or "PreemptLowerPriority")


def check_create(tree: Any, options: LintOptions, now: datetime) -> CreateCheck:
    """Run the API server's checks for creating an object, given as a dict; return problems and decoded object."""
    if not isinstance(tree, dict):
        return CreateCheck([Problem(rules.NOT_AN_OBJECT, "", "expected an object with apiVersion and kind")])
    api_version, kind_name = tree.get("apiVersion"), tree.get("kind")
    if api_version is None and kind_name is None:
        return CreateCheck([Problem(rules.NOT_KUBERNETES, "", "skipped: it has neither apiVersion nor kind")])
    if not isinstance(api_version, str) or not isinstance(kind_name, str) or not api_version or not kind_name:
        missing = "apiVersion" if not isinstance(api_version, str) or not api_version else "kind"
        return CreateCheck([Problem(rules.NOT_AN_OBJECT, missing, f"{missing} is missing or not a text")])
    problems = []
    departure = options.departure(api_version, kind_name)
    if departure:
        problems.append(Problem(rules.REMOVED_NEXT, "apiVersion", departure))
    absence = options.absence(api_version, kind_name)
    if absence:
        return CreateCheck([Problem(rules.NOT_SERVED, "apiVersion", absence)])
    kind = options.scheme.kind(api_version, kind_name)
    if kind is None or find_strategy(options.scheme.hub(kind).type) is None:
        skipped = f"skipped: Mooring does not know {api_version} {kind_name}"
        return CreateCheck([*problems, Problem(rules.UNKNOWN_KIND, "", skipped)])
    deprecation = options.scheme.deprecation_warning(kind)
    if deprecation and not departure:
        problems.append(Problem(rules.DEPRECATED, "apiVersion", deprecation))
    linted = _admit_tree(tree, kind, options, now)
    return CreateCheck(problems + linted.problems, linted.object)


def _admit_tree(tree: Any, kind: Kind, options: LintOptions, now: datetime) -> CreateCheck:
    try:
        decoded = codec.decode_tree(tree, kind.type, FieldValidation.WARN)
    except WrongFieldsError as error:
        return CreateCheck([_wrong_field_problem(problem) for problem in error.problems])
    except DecodeError as error:
        return CreateCheck([Problem(rules.WRONG_FIELD, "", str(error))])
    # The server stops here when fields are unknown; going on shows at once what it would say after that.
    problems = [
        Problem(rules.WRONG_FIELD, text.partition('"')[2].rpartition('"')[0], text) for text in decoded.warnings
    ]
    obj = options.scheme.convert(decoded.object, options.scheme.hub(kind))
    request = _build_request(obj, options.admission, now)
    try:
        admit_create(obj, request)
    except errors.Invalid as refusal:
        refused = _problems_of(refusal)
        problems += [*refused, *_find_ratcheted(tree, kind, options, now, refused)]
    except errors.StatusError as refusal:
        problems.append(Problem(rules.REFUSED, "", refusal.status.message))
    for text in request.warnings:
        path, colon, _ = text.partition(": ")
        problems.append(Problem(rules.SERVER_WARNING, path if colon and " " not in path else "", text))
    return CreateCheck(problems, obj)


def _build_request(obj: Resource, options: AdmissionOptions, now: datetime) -> Request:
    namespace = obj.metadata.namespace or "default"
    return Request(options=options, lookups=_PermissiveLookups(obj), now=now, namespace=namespace)


def _problems_of(refusal: errors.StatusError) -> list[Problem]:
    details = refusal.status.details
    causes = details.causes if details else []
    if not causes:
        return [Problem(rules.REFUSED, "", refusal.status.message)]
    return [Problem(rules.INVALID, cause.field, cause.message) for cause in causes]


def _find_ratcheted(
    tree: Any, kind: Kind, options: LintOptions, now: datetime, refused: list[Problem]
) -> list[Problem]:
    """Return a problem for each rejected field that an update may keep, as a server with all gates on may store it."""
    decoded = codec.decode_tree(tree, kind.type, FieldValidation.IGNORE).object
    stored = options.scheme.convert(decoded, options.scheme.hub(kind))
    wrong_anyway = _refused_fields(lambda: admit_create(stored, _build_request(stored, options.newest, now)))
    stored.metadata.resource_version = "1"
    wrong_in_update = _refused_fields(
        lambda: admit_update(copy_of(stored), stored, _build_request(stored, options.admission, now))
    )
    if wrong_anyway is None or wrong_in_update is None:
        return []
    message = "new objects with this are refused, but one that has it already may still be updated"
    wrong = wrong_anyway | wrong_in_update | {""}
    fields = dict.fromkeys(problem.field for problem in refused if problem.field not in wrong)
    return [Problem(rules.RATCHETED, field, message) for field in fields]


def _refused_fields(admit: Callable[[], object]) -> set[str] | None:
    try:
        admit()
    except errors.Invalid as refusal:
        return {problem.field for problem in _problems_of(refusal)}
    except errors.StatusError:
        return None
    return set()


def too_large_problem(size: int) -> Problem:
    """Return the problem to report for an object of `size` bytes, which is over the server's limit."""
    text = f"Request entity too large: {size} bytes, limit is {MAX_BYTES}"
    return Problem(rules.REFUSED, "", text)


def _wrong_field_problem(problem: str) -> Problem:
    path, colon, message = problem.partition(": ")
    return Problem(rules.WRONG_FIELD, path, message) if colon else Problem(rules.WRONG_FIELD, "", problem)
