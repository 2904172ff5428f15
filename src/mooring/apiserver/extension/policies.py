"""Admission policies as a step of admission (``registry/admission/chain.py``), read from the store.

The response to a write of a policy waits until this server evaluates it (`catch_up`). A server without bindings skips
the step, whatever policies it has.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec

from mooring.admission.policy.attributes import Attributes, MatchKey, Tree
from mooring.admission.policy.bound import EvaluationRecord, select_visible_namespace_fields
from mooring.admission.policy.evaluation import Reinvocation
from mooring.admission.policy.mutating import MutatingPolicies
from mooring.admission.policy.validating import ValidatingPolicies, build_rejection
from mooring.api import codec
from mooring.api.admissionregistration_v1 import DELETE
from mooring.api.kinds import Kind
from mooring.api.label_selector import Selector
from mooring.api.response_limits import add_warning
from mooring.api.scheme import Scheme
from mooring.apiserver.extension.lookups import find_namespace
from mooring.apiserver.extension.patching import TreePatching
from mooring.apiserver.registry.admission.metrics import AdmissionMetrics
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.apiserver.registry.storage.objects import KindsFollower
from mooring.apiserver.registry.storage.stored import Stored
from mooring.constraints.celenv.authorizer import Decide
from mooring.store.kv import KeyValue, Store

GROUP = "admissionregistration.k8s.io"
_KINDS = (
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
_MAX_COMPILED = 1024
_COMPILED_PER_TURN = 20


class PolicyStep(KindsFollower):
    """The admission step that evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies."""

    names = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")

    def __init__(
        self, store: Store, scheme: Scheme, decide: Decide, metrics: AdmissionMetrics, decoded: DecodedCache
    ) -> None:
        self._store = store
        self._scheme = scheme
        self.decide = decide
        self._metrics = metrics
        self._patching = TreePatching(scheme)
        served = {scheme.hub(kind) for kind in scheme.served if kind.group == GROUP and kind.kind in _KINDS}
        super().__init__(store, scheme, served)
        self._decoded = decoded
        self._validating: ValidatingPolicies | None = None
        self._mutating: MutatingPolicies | None = None
        self._is_stale = False
        self._compiled: set[tuple[bool, MatchKey]] = set()
        self.is_idle = True

    def _on_changes(self) -> None:
        self._is_stale = True
        self.is_idle = not any(self._objects(name) for name in _KINDS if name.endswith("Binding"))

    def _rebuild_policies(self) -> None:
        """Read all policies and bindings again if one has changed; compiled expressions of the others are kept."""
        if not self._is_stale:
            return
        everything = [[*self._objects(name).values()] for name in _KINDS]
        self._mutating = MutatingPolicies(everything[0], everything[1], self._mutating)
        self._validating = ValidatingPolicies(everything[2], everything[3], self._validating)
        self._compiled.clear()
        self._is_stale = False

    def ignores(self, key: MatchKey, *, mutating: bool) -> bool:
        if self._is_stale or self._validating is None or self._mutating is None:
            return False
        if mutating:
            return key.operation == DELETE or self._mutating.spares(key)
        return self._validating.spares(key)

    async def mutate(self, attributes: Attributes, reinvocation: Reinvocation) -> None:
        if attributes.is_policy or attributes.operation == DELETE:
            return
        self._rebuild_policies()
        if self._mutating:
            await self._compile_matching(self._mutating, attributes)
            checks: list[EvaluationRecord] = []
            try:
                self._mutating.mutate(attributes, self, self._patching, reinvocation, checks=checks)
            finally:
                self._metrics.record_mutation(checks)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.is_policy:
            return
        self._rebuild_policies()
        if not self._validating:
            return
        await self._compile_matching(self._validating, attributes)
        result = self._validating.validate(attributes, self)
        if result.is_quiet:
            return
        self._metrics.record_validation(result.checks)
        for text in result.warning_texts:
            add_warning(attributes.warnings, text)
        attributes.audit_annotations.update(result.audit_annotations)
        refused = build_rejection(result, attributes)
        if refused is not None:
            raise refused

    async def _compile_matching(self, policies: MutatingPolicies | ValidatingPolicies, attributes: Attributes) -> None:
        """Compile those policies that match a request and are not compiled yet, yielding to other requests."""
        place = (policies is self._mutating, attributes.match_key)
        if place in self._compiled:
            return
        for number, _ in enumerate(policies.compile(attributes), 1):
            if number % _COMPILED_PER_TURN == 0:
                await asyncio.sleep(0)
        if len(self._compiled) >= _MAX_COMPILED:
            self._compiled.clear()
        self._compiled.add(place)

    # -- what policies may look up

    def namespace(self, name: str) -> Tree:
        return self._decoded.get(find_namespace(self._store, name), _decode_visible_namespace)

    def param_kind(self, api_version: str, kind: str) -> Kind | None:
        found = self._scheme.kind(api_version, kind)
        return found if found is not None and self._scheme.is_served(found) and found.stored else None

    def find_object(self, kind: Kind, namespace: str, name: str) -> Tree | None:
        kv = self._store.peek(Stored(self._scheme, kind).key(namespace, name))
        return None if kv is None else self._cached_tree(kv, kind)

    def select_objects(self, kind: Kind, namespace: str, selector: Selector) -> Sequence[Tree]:
        stored = Stored(self._scheme, kind)
        trees = (self._cached_tree(kv, kind) for kv in self._store.peek_all(stored.prefix_of(namespace)))
        return [each for each in trees if selector.matches(each["metadata"].get("labels") or {})]

    def _cached_tree(self, kv: KeyValue, kind: Kind) -> Tree:
        """Return a stored object as a cached JSON tree in an API version; callers must not modify it."""
        return self._decoded.get(kv, partial(self._decode_tree, kind), (PolicyStep, kind))

    def _decode_tree(self, kind: Kind, kv: KeyValue) -> Tree:
        obj = Stored(self._scheme, kind).decode(kv.value, kv.mod_revision)
        tree: Tree = codec.to_tree(self._scheme.convert(obj, kind))
        return tree


def _decode_visible_namespace(kv: KeyValue) -> Tree:
    return select_visible_namespace_fields(msgspec.json.decode(kv.value))
