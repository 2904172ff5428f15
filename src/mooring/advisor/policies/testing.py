"""`mooring policy test`: evaluate policies, bindings, parameters, namespaces and objects from files, without a server.

Every object that is neither a policy nor a binding is evaluated as if it were written, in the order of the files. A
policy that a server would refuse is an error, and so is a file that cannot be read. Called by the command line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create
from mooring.admission.strategy import Request
from mooring.advisor.policies.evaluation import POLICIES, PolicyEvaluator, Verdict
from mooring.advisor.snapshot import dump
from mooring.advisor.snapshot.objects import full_scheme
from mooring.api import codec, errors
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.api.authentication_v1 import UserInfo
from mooring.api.base import copy_of
from mooring.api.meta_v1 import Resource

DENIED, UNKNOWN, WARNED, AUDITED, CHANGED, ALLOWED = "denied", "unknown", "warned", "audited", "changed", "allowed"
"""The results of a policy for an object, the worst first."""
Tree = dict[str, Any]


class PolicyTestError(Exception):
    """The files cannot be used; the message names the problem and the file."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The result of one policy, applied through one binding, for one object."""

    result: str
    policy: str = ""
    binding: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PolicyTestResult:
    """One tested object and the results of the policies for it."""

    object: str
    """The object, as `Pod shop/web`."""
    result: str
    """The worst result of the policies; `allowed` if none matched."""
    rows: tuple[PolicyResult, ...] = ()
    answer: str = ""
    """The error with which a server would refuse the object; empty if it would accept it."""
    changed: Tree | None = None
    """The object after all mutations; None if there were none."""

    def to_json_tree(self) -> Tree:
        rows = [{key: value for key, value in asdict(row).items() if value} for row in self.rows]
        tree: Tree = {"object": self.object, "result": self.result, "policies": rows}
        tree |= {"answer": self.answer} if self.answer else {}
        return tree | ({"changed": self.changed} if self.changed is not None else {})


@dataclass(slots=True)
class PolicyTest:
    """A run of `mooring policy test`: the files to evaluate, and options."""

    files: Sequence[Path]
    operation: str = "CREATE"
    old_files: Sequence[Path] = ()
    user: UserInfo | None = None
    namespace: str = "default"
    notes: list[str] = field(default_factory=list)

    def run(self, stdin: IO[bytes] | None = None) -> Iterator[PolicyTestResult]:
        """Yield the result for each object. Raise `PolicyTestError`, or `SnapshotError` for unreadable files."""
        given = dump(self.files, stdin=stdin, namespace=self.namespace)
        old = dump(self.old_files, namespace=self.namespace) if self.old_files else None
        objects = [each for kind in given.kinds() for each in given.all(kind)]
        policies = [each for each in objects if isinstance(each, POLICIES)]
        if not any(isinstance(each, POLICIES[0] | POLICIES[2]) for each in policies):
            raise PolicyTestError("there is no ValidatingAdmissionPolicy and no MutatingAdmissionPolicy in the files")
        _check_policies(policies)
        custom = [each.tree for each in given.raw() if _is_unknown(each.tree, objects)]
        for tree in custom:
            tree["metadata"] = {"namespace": self.namespace, **(tree.get("metadata") or {})}
        self.notes += [str(note) for note in given.notes if "does not know" not in str(note)]
        self.notes += _unbound_notes(policies)
        evaluator = PolicyEvaluator(objects, custom, user=self.user)
        for obj in objects:
            if not isinstance(obj, POLICIES):
                space, name = obj.metadata.namespace, obj.metadata.name
                before = old.find(type(obj), space, name) if old is not None else None
                verdict = evaluator.verdict(copy_of(obj), old=before, operation=self.operation)
                yield _result_of(_name_of(obj.kind, {"namespace": space, "name": name}), verdict)
        definitions = given.all(CustomResourceDefinition)
        plurals = {(each.spec.group, each.spec.names.kind): each.spec.names.plural for each in definitions}
        for tree in custom:
            plural = plurals.get((tree["apiVersion"].rpartition("/")[0], tree["kind"]), "")
            verdict = evaluator.verdict_on_tree(tree, plural=plural, operation=self.operation)
            yield _result_of(_name_of(tree["kind"], tree["metadata"]), verdict)


def _check_policies(policies: Sequence[Resource]) -> None:
    problems = []
    for policy in policies:
        made = copy_of(policy)
        made.metadata.namespace = ""
        try:
            admit_create(made, Request(options=AdmissionOptions(), now=datetime.now(UTC)))
        except errors.StatusError as error:
            problems.append(error.status.message)
    if problems:
        raise PolicyTestError("\n".join(problems))


def _unbound_notes(policies: Iterable[Any]) -> list[str]:
    """Return notes about policies without a binding and bindings without a policy, which have no effect."""
    notes, objects = [], [*policies]
    for policy, binding in ((POLICIES[0], POLICIES[1]), (POLICIES[2], POLICIES[3])):
        named = {each.metadata.name for each in objects if isinstance(each, policy)}
        bindings: list[Any] = [each for each in objects if isinstance(each, binding)]
        bound = {each.spec.policy_name for each in bindings}
        notes += [f"{policy.__name__} {name} has no binding, and does nothing" for name in sorted(named - bound)]
        notes += [f"a binding names {policy.__name__} {name}, which is not there" for name in sorted(bound - named)]
    return notes


def _is_unknown(tree: Any, objects: Sequence[Resource]) -> bool:
    if not isinstance(tree, dict) or not isinstance(tree.get("apiVersion"), str) or not objects:
        return False
    return isinstance(tree.get("kind"), str) and full_scheme().kind(tree["apiVersion"], tree["kind"]) is None


def _result_of(name: str, verdict: Verdict) -> PolicyTestResult:
    rows = [PolicyResult(DENIED, each.policy, each.binding, each.message) for each in verdict.denials]
    rows += [PolicyResult(WARNED, each.policy, each.binding, each.message) for each in verdict.warnings]
    rows += [PolicyResult(AUDITED, each["policy"], each["binding"], each["message"]) for each in verdict.audited]
    rows += [PolicyResult(UNKNOWN, message=each) for each in verdict.unknown]
    if verdict.refused and not verdict.denials:
        rows.append(PolicyResult(DENIED, message=verdict.refused))
    said = {(row.policy, row.binding) for row in rows}
    changers = {(policy, binding) for kind, policy, binding in verdict.asked if kind.startswith("Mutating")}
    changed = codec.to_tree(verdict.changed) if verdict.changed is not None else None
    rows += [PolicyResult(CHANGED if changed else ALLOWED, *each) for each in sorted(changers)]
    passed = sorted({(policy, binding) for kind, policy, binding in verdict.asked if kind.startswith("Validating")})
    rows += [PolicyResult(ALLOWED, *each) for each in passed if each not in said]
    order = (DENIED, UNKNOWN, WARNED, AUDITED, CHANGED, ALLOWED)
    worst = min((row.result for row in rows), key=order.index, default=ALLOWED)
    return PolicyTestResult(name, worst, tuple(rows), verdict.refused, changed)


def _name_of(kind: str, metadata: Mapping[str, Any]) -> str:
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
