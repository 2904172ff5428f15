"""What admission allows, as plain values: built once from a component's versions and gates, read everywhere.

`AdmissionOptions` is the only thing that validation knows about gates and versions (4330.12). `for_component` builds
it. Ratcheting widens it per object: ``pod/rules.py`` says what an object uses already.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from mooring.admission.expressions import Judges, judge_in
from mooring.base import known_gates as gates
from mooring.base.component import Component
from mooring.base.version import BINARY, Version

if TYPE_CHECKING:
    from mooring.admission.release_fields import ReleaseFields
    from mooring.api.history.tables import Field, Value
    from mooring.cel.environment import Environment
    from mooring.constraints.celenv import Environments


@lru_cache(maxsize=16)
def judges_for(min_compatibility: Version, *, forced: bool = False) -> Judges:
    """The judges of CEL expressions for a minimum compatibility version.

    `forced`: KEP-5500's gate was switched on although that version has no such expressions.
    """
    return Judges(
        new_taint=judge_in(lambda: _environments("TAINT").new_expressions(min_compatibility, forced=forced)),
        new_node=judge_in(lambda: _environments("NODE").new_expressions(min_compatibility, forced=forced)),
        stored_taint=judge_in(lambda: _environments("TAINT").stored_expressions()),
        stored_node=judge_in(lambda: _environments("NODE").stored_expressions()),
        new_device=judge_in(lambda: _environments("DEVICE").new_expressions(min_compatibility), ("bool", "dyn")),
    )


def _environments(subject: str) -> "Environments":
    from mooring.constraints import celenv  # noqa: PLC0415 - takes longer to import than all of admission

    environments: Environments = getattr(celenv, subject)
    return environments


def _rules_of(version: Version) -> "Callable[[], Environment]":
    def environment() -> "Environment":
        from mooring.constraints.celenv.environments import since  # noqa: PLC0415 - see `_environments`

        return since(version)

    return environment


class PolicyEnvironment(Protocol):
    """Makes the environment of a policy's expressions."""

    def __call__(self, *, params: bool = False, authorizer: bool = True, patches: bool = False) -> "Environment":
        """With parameters, with somebody to ask for rights, with the types of changes."""


def _policies_of(version: Version | None) -> PolicyEnvironment:
    def environment(*, params: bool = False, authorizer: bool = True, patches: bool = False) -> "Environment":
        from mooring.constraints.celenv.admission import admission_environment  # noqa: PLC0415 - see `_environments`

        return admission_environment(version, params=params, authorizer=authorizer, patches=patches)

    return environment


stored_policies = _policies_of(None)
"""For expressions of policies that are stored already, and for evaluation: everything that this release knows."""


class CustomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What schemas of custom kinds may use."""

    new_rules: Callable[[], "Environment"] = msgspec.field(default_factory=lambda: _rules_of(BINARY.minus(1)))
    """The environment in which new rules are judged: as the minimum compatibility version understands CEL."""
    new_formats: bool = True
    """The formats that came with 1.34 are known."""


class AdmissionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The switches of admission. The defaults are those of a plain start."""

    comparison_operators: bool = True
    """`Lt` and `Gt` in tolerations."""
    semver_operators: bool = True
    """`SemverLt`, `SemverGt` and `SemverEq` in tolerations and node affinity."""
    cel: bool = True
    """`expression` in tolerations and `matchCELExpressions` in node selector terms."""
    label_keys_in_pod_affinity: bool = True
    """`matchLabelKeys` and `mismatchLabelKeys` are kept, and merged on create."""
    label_keys_in_spread: bool = True
    """`matchLabelKeys` of topology spread constraints is kept."""
    label_keys_in_spread_merge: bool = True
    """`matchLabelKeys` of topology spread constraints is merged into the selector on create."""
    node_inclusion_policy: bool = True
    """`nodeAffinityPolicy` and `nodeTaintsPolicy` of topology spread constraints are kept."""
    pod_level_resources: bool = True
    """`resources` of a pod as a whole is kept."""
    extended_device_resources: bool = True
    """Device classes may stand for extended resources, and quotas count such devices under both names."""
    mutable_pv_node_affinity: bool = False
    mutable_suspended_job_directives: bool = True
    relaxed_env_names: bool = True
    """Names of environment variables may have any printable ASCII character but `=`."""
    relaxed_dns_searches: bool = True
    """Search domains may have underscores, and may be a single dot."""
    container_restart_policy: bool = True
    """Containers that are not init containers may have a `restartPolicy` of their own."""
    pod_topology_labels: bool = True
    """Pods get the zone and region of their node as labels when they are bound."""
    service_families: tuple[str, ...] = ("IPv4",)
    """The families of addresses that Services can have, the usual one first."""
    relaxed_service_names: bool = True
    """Names of Services may begin with a digit."""
    scale_to_zero: bool = True
    """An autoscaler may have no pods at least."""
    pod_security_minor: int = BINARY.minor
    """The minor version that `latest` means in the Pod Security labels of namespaces."""
    custom: CustomOptions = msgspec.field(default_factory=CustomOptions)
    """What definitions of custom kinds may say."""
    new_policies: PolicyEnvironment = msgspec.field(default_factory=lambda: _policies_of(BINARY.minus(1)))
    """The environments in which new expressions of policies and match conditions are judged."""
    static_names: bool = True
    """Names of webhook configurations that end with `.static.k8s.io` are reserved."""
    judges: Judges = msgspec.field(default_factory=lambda: judges_for(BINARY.minus(1)))
    """Judge CEL expressions, new ones as the minimum compatibility version understands them."""
    release_fields: "ReleaseFields | None" = None
    """Fields that the emulated release has off, or that are newer than the minimum compatibility version."""


RELAXED_SERVICE_NAMES = Version(1, 36)
SCALE_TO_ZERO = Version(1, 37)
STATIC_NAMES = Version(1, 37)
EXTENDED_DEVICE_RESOURCES = Version(1, 36)
RELAXED_ENV_NAMES = Version(1, 32)
RELAXED_DNS_SEARCHES = Version(1, 33)
CONTAINER_RESTART_POLICY = Version(1, 34)
NEW_FORMATS = Version(1, 34)

SERVED_BY_RUNTIME_CONFIG = frozenset({"DynamicResourceAllocation"})
"""Gates of Kubernetes beside which a group has to be switched on: Mooring is content with the group."""


@lru_cache(maxsize=32)
def fields_of(emulation: Version, compatible: Version) -> "ReleaseFields | None":
    """What the emulated release has off by default, and what is newer than the minimum compatibility version.

    Gates that Mooring knows are left to the kinds, and nothing of our own release is off.
    """
    if compatible >= BINARY:
        return None
    from mooring.admission.release_fields import ReleaseFields  # noqa: PLC0415 - see `_environments`
    from mooring.api.history import changing  # noqa: PLC0415 - as above

    ours = {gate.name for gate in gates.KNOWN} | SERVED_BY_RUNTIME_CONFIG

    def is_young(of: "Field | Value") -> bool:
        since = of.releases.since
        return since is not None and since > compatible and not ours & set(of.gates)

    def is_off(of: "Field") -> bool:
        if emulation >= BINARY or not of.gates or ours & set(of.gates):
            return False
        from mooring.base import gate_history  # noqa: PLC0415 - only those who emulate pay for the table

        return not any(gate_history.is_on(gate, emulation) for gate in of.gates)

    return ReleaseFields(*changing(), is_off, is_young)


def for_component(component: Component) -> AdmissionOptions:
    """Read a component's versions and gates, once."""
    on = component.gates.enabled
    compatible = component.versions.min_compatibility
    return AdmissionOptions(
        comparison_operators=on(gates.COMPARISON_OPERATORS),
        semver_operators=on(gates.SEMVER_OPERATORS),
        cel=on(gates.CEL),
        label_keys_in_pod_affinity=on(gates.LABEL_KEYS_IN_POD_AFFINITY),
        label_keys_in_spread=on(gates.LABEL_KEYS_IN_SPREAD),
        label_keys_in_spread_merge=on(gates.LABEL_KEYS_IN_SPREAD_MERGE),
        node_inclusion_policy=on(gates.NODE_INCLUSION_POLICY),
        pod_level_resources=on(gates.POD_LEVEL_RESOURCES),
        mutable_pv_node_affinity=on(gates.MUTABLE_PV_NODE_AFFINITY),
        mutable_suspended_job_directives=on(gates.MUTABLE_SUSPENDED_JOB_DIRECTIVES),
        pod_topology_labels=on(gates.POD_TOPOLOGY_LABELS),
        relaxed_service_names=component.versions.emulation >= RELAXED_SERVICE_NAMES,
        extended_device_resources=component.versions.emulation >= EXTENDED_DEVICE_RESOURCES,
        scale_to_zero=component.versions.emulation >= SCALE_TO_ZERO,
        static_names=component.versions.emulation >= STATIC_NAMES,
        pod_security_minor=component.versions.emulation.minor,
        relaxed_env_names=compatible >= RELAXED_ENV_NAMES,
        relaxed_dns_searches=compatible >= RELAXED_DNS_SEARCHES,
        container_restart_policy=compatible >= CONTAINER_RESTART_POLICY,
        custom=CustomOptions(new_rules=_rules_of(compatible), new_formats=compatible >= NEW_FORMATS),
        new_policies=_policies_of(compatible),
        judges=judges_for(compatible, forced=on(gates.CEL)),
        release_fields=fields_of(component.versions.emulation, compatible),
    )
