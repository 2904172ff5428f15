"""The options of admission as plain values, built once from a component's versions and gates.

`AdmissionOptions` is the only thing that validation knows about gates and versions (4330.12). Ratcheting widens it per
object: ``pod/rules.py`` finds what an object uses already.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from mooring.admission.expressions import ExpressionChecks, build_expression_check
from mooring.base import known_gates as gates
from mooring.base.component import Component
from mooring.base.version import BINARY, OLDEST_EMULATION, Version

if TYPE_CHECKING:
    from mooring.admission.release_fields import ReleaseFields
    from mooring.api.history.tables import Field, Value
    from mooring.cel.environment import Environment
    from mooring.constraints.celenv import Environments


@lru_cache(maxsize=16)
def get_expression_checks(min_compatibility: Version, *, forced: bool = False) -> ExpressionChecks:
    """Return the CEL checks for a minimum compatibility version; `forced` allows all of CEL below it, too."""
    return ExpressionChecks(
        new_taint=build_expression_check(
            lambda: _load_environments("TAINT").new_expressions(min_compatibility, forced=forced)
        ),
        new_node=build_expression_check(
            lambda: _load_environments("NODE").new_expressions(min_compatibility, forced=forced)
        ),
        stored_taint=build_expression_check(lambda: _load_environments("TAINT").stored_expressions()),
        stored_node=build_expression_check(lambda: _load_environments("NODE").stored_expressions()),
        new_device=build_expression_check(
            lambda: _load_environments("DEVICE").new_expressions(min_compatibility), ("bool", "dyn")
        ),
    )


def _load_environments(subject: str) -> "Environments":
    from mooring.constraints import celenv  # noqa: PLC0415 - takes longer to import than all of admission

    environments: Environments = getattr(celenv, subject)
    return environments


def _build_rule_environment(version: Version) -> "Environment":
    from mooring.constraints.celenv.environments import base_environment  # noqa: PLC0415 - see `_load_environments`

    return base_environment(version)


class PolicyEnvironment(Protocol):
    """A function that returns the CEL environment for admission policies, with or without params and authorizer."""

    def __call__(self, *, params: bool = False, authorizer: bool = True, patches: bool = False) -> "Environment":
        pass


def _build_policy_environment(version: Version | None, **features: bool) -> "Environment":
    from mooring.constraints.celenv.admission import admission_environment  # noqa: PLC0415 - see `_load_environments`

    return admission_environment(version, **features)


stored_policies: PolicyEnvironment = partial(_build_policy_environment, None)
"""The CEL environments for stored policy expressions and for evaluating them, with every library of this release."""


class CustomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The CEL libraries and formats that new CustomResourceDefinition schemas may use at a compatibility version."""

    new_rules: Callable[[], "Environment"] = msgspec.field(
        default_factory=lambda: partial(_build_rule_environment, BINARY.minus(1))
    )
    """The CEL environment for new rules: that of the minimum compatibility version."""
    new_formats: bool = True


class AdmissionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates and versions of a server, as plain values; the defaults are those of a server without flags."""

    comparison_operators: bool = True
    """Whether tolerations may use the operators `Lt` and `Gt`."""
    semver_operators: bool = True
    """Whether tolerations and node affinity may use `SemverLt`, `SemverGt` and `SemverEq`."""
    cel: bool = True
    """Whether tolerations may have `expression`, and node selector terms `matchCELExpressions`."""
    label_keys_in_pod_affinity: bool = True
    """Whether `matchLabelKeys` and `mismatchLabelKeys` of pod affinity are kept, and merged on create."""
    label_keys_in_spread: bool = True
    """Whether `matchLabelKeys` of topology spread constraints is kept."""
    label_keys_in_spread_merge: bool = True
    """Whether `matchLabelKeys` of topology spread constraints is merged into the selector on create."""
    node_inclusion_policy: bool = True
    """Whether `nodeAffinityPolicy` and `nodeTaintsPolicy` of topology spread constraints are kept."""
    pod_level_resources: bool = True
    """Whether `resources` of a pod as a whole is kept."""
    extended_device_resources: bool = True
    """Whether device classes may define extended resources, and quotas count such devices under both names."""
    mutable_pv_node_affinity: bool = False
    mutable_suspended_job_directives: bool = True
    relaxed_env_names: bool = True
    """Whether names of environment variables may have any printable ASCII character except `=`."""
    relaxed_dns_searches: bool = True
    """Whether DNS search domains may have underscores, and may be a single dot."""
    container_restart_policy: bool = True
    """Whether regular containers may have a `restartPolicy` of their own."""
    pod_topology_labels: bool = True
    """Whether pods get the zone and region of their node as labels when they are bound."""
    service_families: tuple[str, ...] = ("IPv4",)
    """The IP families of Services, the default first."""
    relaxed_service_names: bool = True
    """Whether names of Services may begin with a digit."""
    same_node_traffic: bool = True
    """Whether `trafficDistribution` of Services may be PreferSameZone or PreferSameNode."""
    strict_addresses: bool = True
    """Whether addresses and ranges of Services must have no leading zeros, and no bits beyond the prefix."""
    scale_to_zero: bool = True
    """Whether an autoscaler may have a minimum of zero replicas."""
    pod_security_minor: int = BINARY.minor
    """The minor version that `latest` means in the Pod Security labels of namespaces."""
    custom: CustomOptions = msgspec.field(default_factory=CustomOptions)
    new_policies: PolicyEnvironment = msgspec.field(
        default_factory=lambda: partial(_build_policy_environment, BINARY.minus(1))
    )
    """The CEL environments for new expressions of policies and match conditions."""
    static_names: bool = True
    """Whether names of webhook configurations that end with `.static.k8s.io` are reserved."""
    expression_checks: ExpressionChecks = msgspec.field(default_factory=lambda: get_expression_checks(BINARY.minus(1)))
    """The checks of CEL expressions; new expressions are checked at the minimum compatibility version."""
    release_fields: "ReleaseFields | None" = None
    """The fields that are off in the emulated release, or newer than the minimum compatibility version."""


class UpstreamFeatureGate(NamedTuple):
    """A Kubernetes feature gate that changes a validation rule; the releases that first enable and understand it."""

    name: str
    on_since: Version
    """The first release in which the gate is on by default."""
    known_since: Version
    """The first release that understands the values which the gate allows."""

    def is_on(self, component: Component) -> bool:
        versions, state = component.versions, component.gates.states.get(self.name)
        is_known = versions.emulation >= self.on_since and versions.min_compatibility >= self.known_since
        return is_known and (state is None or state.enabled)


RELAXED_SERVICE_NAMES = UpstreamFeatureGate("RelaxedServiceNameValidation", Version(1, 36), Version(1, 34))
SAME_NODE_TRAFFIC = UpstreamFeatureGate("PreferSameTrafficDistribution", Version(1, 34), Version(1, 33))
STRICT_ADDRESSES = UpstreamFeatureGate("StrictIPCIDRValidation", Version(1, 36), OLDEST_EMULATION)
SCALE_TO_ZERO = UpstreamFeatureGate("HPAScaleToZero", Version(1, 37), OLDEST_EMULATION)
RELAXED_ENV_NAMES = UpstreamFeatureGate("RelaxedEnvironmentVariableValidation", Version(1, 32), Version(1, 32))
RELAXED_DNS_SEARCHES = UpstreamFeatureGate("RelaxedDNSSearchValidation", Version(1, 33), Version(1, 33))
CONTAINER_RESTART_POLICY = UpstreamFeatureGate("ContainerRestartRules", Version(1, 34), Version(1, 34))
STATIC_NAMES = Version(1, 37)
EXTENDED_DEVICE_RESOURCES = Version(1, 36)
NEW_FORMATS = Version(1, 34)

_FIELDS_OF_OUR_GATES = frozenset({gates.POD_LEVEL_RESOURCES})
"""Mooring's own feature gates whose fields are rejected if they are newer than the minimum compatibility version."""

SERVED_BY_RUNTIME_CONFIG = frozenset({"DynamicResourceAllocation"})
"""Feature gates of Kubernetes that Mooring ignores: it only asks whether their API group is enabled."""


@lru_cache(maxsize=32)
def build_release_fields(
    emulation: Version,
    compatible: Version,
    off: frozenset[str] = frozenset(),
    too_new: frozenset[str] = frozenset(),
) -> "ReleaseFields | None":
    """Return the API fields to drop, as off in the emulated release, and to reject, as newer than the compatibility
    version; None if there are none.

    `off` are the feature gates that flags disable. Fields of gates that Mooring implements are not included (the
    strategies of kinds handle them), except those of gates in `too_new`, which are rejected.
    """
    ours = {gate.name for gate in gates.KNOWN} | SERVED_BY_RUNTIME_CONFIG
    off -= ours
    if compatible >= BINARY and not off:
        return None
    from mooring.admission.release_fields import ReleaseFields  # noqa: PLC0415 - see `_load_environments`
    from mooring.api.history import changing_fields  # noqa: PLC0415 - as above

    def is_field_too_new(of: "Field | Value") -> bool:
        since = of.releases.since
        return since is not None and since > compatible and not (ours - too_new) & set(of.gates)

    def is_field_off(of: "Field") -> bool:
        if not of.gates or ours & set(of.gates):
            return False
        if emulation >= BINARY:
            return off.issuperset(of.gates)
        from mooring.base import gate_history  # noqa: PLC0415 - read only under emulation

        return not any(gate not in off and gate_history.is_on_by_default(gate, emulation) for gate in of.gates)

    return ReleaseFields(*changing_fields(), is_field_off, is_field_too_new)


def for_component(component: Component) -> AdmissionOptions:
    """Build the admission options from a server component's versions and feature gates."""
    on = component.gates.enabled
    compatible = component.versions.min_compatibility
    states = component.gates.states.values()
    off = frozenset(state.gate.name for state in states if not state.enabled)
    too_new = frozenset(state.gate.name for state in states if not state.is_compatible) & off & _FIELDS_OF_OUR_GATES
    return AdmissionOptions(
        comparison_operators=on(gates.COMPARISON_OPERATORS),
        semver_operators=on(gates.SEMVER_OPERATORS),
        cel=on(gates.CEL),
        label_keys_in_pod_affinity=on(gates.LABEL_KEYS_IN_POD_AFFINITY),
        label_keys_in_spread=on(gates.LABEL_KEYS_IN_SPREAD),
        label_keys_in_spread_merge=on(gates.LABEL_KEYS_IN_SPREAD_MERGE),
        node_inclusion_policy=on(gates.NODE_INCLUSION_POLICY),
        pod_level_resources=on(gates.POD_LEVEL_RESOURCES) or gates.POD_LEVEL_RESOURCES in too_new,  # refused, then
        mutable_pv_node_affinity=on(gates.MUTABLE_PV_NODE_AFFINITY),
        mutable_suspended_job_directives=on(gates.MUTABLE_SUSPENDED_JOB_DIRECTIVES),
        pod_topology_labels=on(gates.POD_TOPOLOGY_LABELS),
        relaxed_service_names=RELAXED_SERVICE_NAMES.is_on(component),
        same_node_traffic=SAME_NODE_TRAFFIC.is_on(component),
        strict_addresses=STRICT_ADDRESSES.is_on(component),
        extended_device_resources=component.versions.emulation >= EXTENDED_DEVICE_RESOURCES,
        scale_to_zero=SCALE_TO_ZERO.is_on(component),
        static_names=component.versions.emulation >= STATIC_NAMES,
        pod_security_minor=component.versions.emulation.minor,
        relaxed_env_names=RELAXED_ENV_NAMES.is_on(component),
        relaxed_dns_searches=RELAXED_DNS_SEARCHES.is_on(component),
        container_restart_policy=CONTAINER_RESTART_POLICY.is_on(component),
        custom=CustomOptions(
            new_rules=partial(_build_rule_environment, compatible), new_formats=compatible >= NEW_FORMATS
        ),
        new_policies=partial(_build_policy_environment, compatible),
        expression_checks=get_expression_checks(compatible, forced=on(gates.CEL)),
        release_fields=build_release_fields(component.versions.emulation, compatible, off, too_new),
    )
