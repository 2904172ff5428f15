"""Evaluate the policies of a cluster or of files for an object that is not written yet.

A policy whose parameters are not in the snapshot is not evaluated but listed in `Verdict.unknown`; ConfigMaps, in which
many policies keep parameters, are never read from a live cluster. There is no user whose permissions could be checked,
so the CEL variable `authorizer` allows nothing; the verdict notes where that matters.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource, Tree
from mooring.api import admissionregistration_v1, codec, errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Namespace
from mooring.api.kinds import GroupVersion, Kind
from mooring.api.label_selector import Selector
from mooring.api.meta_v1 import PartialObjectMetadata, Resource
from mooring.api.scheme import Scheme

if TYPE_CHECKING:
    from mooring.admission.policy.validating import PolicyDecision
    from mooring.advisor.policies.webhooks import CalledWebhook
    from mooring.advisor.snapshot import Snapshot
    from mooring.constraints.celenv.authorizer import Decide

POLICIES: tuple[type[Resource], ...] = (
    admissionregistration_v1.MutatingAdmissionPolicy,
    admissionregistration_v1.MutatingAdmissionPolicyBinding,
    admissionregistration_v1.ValidatingAdmissionPolicy,
    admissionregistration_v1.ValidatingAdmissionPolicyBinding,
    admissionregistration_v1.MutatingWebhookConfiguration,
    admissionregistration_v1.ValidatingWebhookConfiguration,
)
"""The kinds that the evaluation needs, besides namespaces."""
_ACTIVE = (
    admissionregistration_v1.MutatingAdmissionPolicyBinding,
    admissionregistration_v1.MutatingWebhookConfiguration,
    admissionregistration_v1.ValidatingAdmissionPolicyBinding,
    admissionregistration_v1.ValidatingWebhookConfiguration,
)
_UNREAD = frozenset({"ConfigMap", "Secret"})


class _UnknownError(Exception):
    """A policy cannot be evaluated, because its parameter object is not in the snapshot."""


@dataclass(slots=True)
class Verdict:
    """The result of evaluating all policies for one object: denials, warnings, and webhooks that would be called."""

    refused: str = ""
    """The error with which the server would refuse the object; empty if it would accept it."""
    denials: "list[PolicyDecision]" = field(default_factory=list)
    warnings: "list[PolicyDecision]" = field(default_factory=list)
    audited: list[Tree] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """The kind, policy and binding of every policy that matched the object."""
    called: "list[CalledWebhook]" = field(default_factory=list)
    """The webhooks that the server would call; Mooring does not call them."""
    unknown: list[str] = field(default_factory=list)
    """The policies that could not be evaluated, and why."""
    changed: Resource | None = None
    """The object after MutatingAdmissionPolicies; None if they did not change it."""

    @property
    def webhooks(self) -> list[str]:
        """Return the names of the webhooks that the server would call for the object, for output."""
        return list(map(str, self.called))

    @property
    def required_webhooks(self) -> "list[CalledWebhook]":
        """Return the webhooks to call whose failure makes the server refuse the object (failurePolicy Fail)."""
        return [hook for hook in self.called if not hook.ignores_failures]

    @property
    def warning_texts(self) -> list[str]:
        return [
            f"ValidatingAdmissionPolicy '{each.policy}' with binding '{each.binding}': {each.message}"
            for each in self.warnings
        ]


class PolicyEvaluator:
    """Evaluates the admission policies of a snapshot for objects. It can be sent to other processes."""

    def __init__(
        self,
        objects: Iterable[Resource],
        others: Iterable[Tree] = (),
        *,
        is_whole: bool = True,
        user: UserInfo | None = None,
    ) -> None:
        """Index the objects; `others` are of kinds unknown to Mooring, `is_whole`: no kind was left unread."""
        self._objects = [*objects]
        self._others = [*others]
        self._is_whole = is_whole
        self._user = user or UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])
        self._ready: _CompiledPolicies | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": None}  # compiled expressions stay where they are

    @property
    def is_idle(self) -> bool:
        """Return whether there is neither a bound policy nor a webhook."""
        return not any(isinstance(each, _ACTIVE) for each in self._objects)

    def verdict(self, obj: Resource, *, old: Resource | None = None, operation: str = "CREATE") -> Verdict:
        """Evaluate all policies for a write of an object, which is not modified; return the verdict."""
        return Verdict() if self.is_idle else self._compile().verdict(obj, old, operation, self._user)

    def verdict_on_tree(self, tree: Tree, *, plural: str = "", operation: str = "CREATE") -> Verdict:
        """Evaluate all policies for a write of an object of a kind unknown to Mooring, given as a dict."""
        return Verdict() if self.is_idle else self._compile().verdict_on_tree(tree, plural, operation, self._user)

    def _compile(self) -> "_CompiledPolicies":
        if self._ready is None:
            self._ready = _CompiledPolicies(self._objects, self._others, is_whole=self._is_whole)
        return self._ready


def policies_of(snapshot: "Snapshot") -> PolicyEvaluator:
    """Return an evaluator of the admission policies in a snapshot, with the objects that they may read."""
    kinds = snapshot.kinds()
    needed = [each for kind in POLICIES if kind in kinds for each in snapshot.all(kind)]
    if not needed:
        return PolicyEvaluator(())
    objects = [each for kind in kinds for each in snapshot.all(kind)]
    return PolicyEvaluator(objects, is_whole=False)


class _CompiledPolicies:
    def __init__(self, objects: Sequence[Resource], others: Sequence[Tree], *, is_whole: bool) -> None:
        from mooring.admission.policy.mutating import MutatingPolicies  # noqa: PLC0415 - takes a while to import
        from mooring.admission.policy.validating import ValidatingPolicies  # noqa: PLC0415 - as above
        from mooring.advisor.policies.webhooks import CalledWebhooks  # noqa: PLC0415 - as above
        from mooring.apiserver.extension.patching import TreePatching  # noqa: PLC0415 - as above
        from mooring.constraints.celenv.authorizer import deny_all  # noqa: PLC0415 - as above

        self.decide: Decide = deny_all
        self._scheme = Scheme()
        self._is_whole = is_whole
        self._objects = objects
        self._others = others
        self._namespaces = {each.metadata.name: each for each in objects if isinstance(each, Namespace)}
        self._patching = TreePatching(self._scheme)
        labels = {name: each.metadata.labels for name, each in self._namespaces.items()}
        self._webhooks = CalledWebhooks(objects, labels)
        self._mutating: MutatingPolicies = MutatingPolicies(
            _objects_of(admissionregistration_v1.MutatingAdmissionPolicy, objects),
            _objects_of(admissionregistration_v1.MutatingAdmissionPolicyBinding, objects),
        )
        self._validating: ValidatingPolicies = ValidatingPolicies(
            _objects_of(admissionregistration_v1.ValidatingAdmissionPolicy, objects),
            _objects_of(admissionregistration_v1.ValidatingAdmissionPolicyBinding, objects),
        )

    def verdict(self, obj: Resource, old: Resource | None, operation: str, user: UserInfo) -> Verdict:
        kind = self._scheme.kind(obj.api_version, obj.kind)
        if kind is None:
            return Verdict()
        attributes = self._build_attributes(kind, obj, operation, user)
        attributes.old = obj if operation == "DELETE" else old
        attributes.obj = None if operation == "DELETE" else obj
        return self._evaluate(attributes)

    def verdict_on_tree(self, tree: Tree, plural: str, operation: str, user: UserInfo) -> Verdict:
        kind = _kind_of_tree(tree, plural)
        shown = codec.from_tree(
            {"apiVersion": tree["apiVersion"], "kind": tree["kind"], "metadata": tree.get("metadata") or {}},
            PartialObjectMetadata,
            codec.FieldValidation.IGNORE,
        )[0]
        attributes = self._build_attributes(kind, shown, operation, user)
        attributes.set_undecoded_object(tree)
        return self._evaluate(attributes)

    def _build_attributes(self, kind: Kind, obj: Resource, operation: str, user: UserInfo) -> Attributes:
        of_namespace = isinstance(obj, Namespace)
        return Attributes(
            scheme=self._scheme,
            operation=operation,
            resource_kind=kind,
            kind=GroupVersionKind.of_kind(kind),
            resource=GroupVersionResource.of_kind(kind),
            namespace=obj.metadata.name if of_namespace else obj.metadata.namespace,
            name=obj.metadata.name,
            obj=obj,
            user=user,
        )

    def _evaluate(self, attributes: Attributes) -> Verdict:
        from mooring.admission.policy.validating import build_rejection  # noqa: PLC0415 - see `__init__`

        verdict = Verdict(called=self._webhooks.called_for(attributes))
        if attributes.is_policy:
            return verdict
        before = attributes.obj
        asked: list[tuple[str, str]] = []
        try:
            if attributes.operation != "DELETE":
                self._mutating.mutate(attributes, self, self._patching, asked=asked)
            verdict.asked += [("MutatingAdmissionPolicy", *each) for each in asked]
            judgement = self._validating.validate(attributes, self)
        except _UnknownError as error:
            verdict.unknown.append(str(error))
            return verdict
        except errors.StatusError as error:
            verdict.asked += [("MutatingAdmissionPolicy", *each) for each in asked]
            verdict.refused = error.status.message
            return verdict
        if attributes.obj is not before:
            verdict.changed = attributes.obj
        verdict.asked += [("ValidatingAdmissionPolicy", *each) for each in judgement.asked]
        verdict.denials, verdict.warnings, verdict.audited = judgement.denials, judgement.warnings, judgement.failures
        refused = build_rejection(judgement, attributes)
        verdict.refused = refused.status.message if refused is not None else ""
        return verdict

    # -- what policies may know of the cluster

    def namespace(self, name: str) -> Tree:
        from mooring.admission.policy.bound import select_visible_namespace_fields  # noqa: PLC0415 - see `__init__`

        found = self._namespaces.get(name)
        labels = {"kubernetes.io/metadata.name": name}
        if found is None:  # a manifest may leave it to others to make the namespace
            return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"phase": "Active"}}
        tree = select_visible_namespace_fields(codec.to_tree(found))
        tree["metadata"] = {**tree["metadata"], "labels": {**labels, **found.metadata.labels}}
        return tree

    def param_kind(self, api_version: str, kind: str) -> Kind | None:
        found = self._scheme.kind(api_version, kind)
        if found is not None:
            if not self._is_whole and kind in _UNREAD:
                raise _UnknownError(f"parameters of kind {kind} are not read from clusters")
            return found
        for tree in self._others:
            if tree.get("apiVersion") == api_version and tree.get("kind") == kind:
                return _kind_of_tree(tree, "")
        if not self._is_whole:
            raise _UnknownError(f"parameters of kind {api_version} {kind} are not known")
        return None

    def find_object(self, kind: Kind, namespace: str, name: str) -> Tree | None:
        return next(
            (each for each in self._parameter_objects(kind, namespace) if each["metadata"].get("name") == name), None
        )

    def select_objects(self, kind: Kind, namespace: str, selector: Selector) -> Sequence[Tree]:
        found = self._parameter_objects(kind, namespace)
        return [each for each in found if selector.matches(each["metadata"].get("labels") or {})]

    def _parameter_objects(self, kind: Kind, namespace: str) -> list[Tree]:
        known = [
            codec.to_tree(self._scheme.convert(each, kind))
            for each in self._objects
            if each.kind == kind.kind and GroupVersion.parse(each.api_version).group == kind.group
        ]
        same = {"apiVersion": kind.api_version, "kind": kind.kind}
        known += [each for each in self._others if {key: each.get(key) for key in same} == same]
        return [each for each in known if (each["metadata"].get("namespace") or "") == namespace]


def _objects_of(kind: type[Any], objects: Iterable[Resource]) -> list[Any]:
    return [each for each in objects if isinstance(each, kind)]


def _kind_of_tree(tree: Mapping[str, Any], plural: str) -> Kind:
    version = GroupVersion.parse(str(tree["apiVersion"]))
    name = str(tree["kind"])
    namespaced = bool((tree.get("metadata") or {}).get("namespace"))
    plural = plural or f"{name.lower()}s"
    return Kind(*version, name, PartialObjectMetadata, plural=plural, namespaced=namespaced)
