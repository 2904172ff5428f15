"""Resolve the versions and feature gates of a component from the flags that every component takes."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mooring.base import gates as feature_gates
from mooring.base.gates import ALL_ALPHA, ALL_BETA, FeatureGates, Gate, GateError, Stage
from mooring.base.known_gates import COMPATIBILITY_VERSIONS, KNOWN
from mooring.base.version import BINARY, ComponentVersions, Version

_ALL = (ALL_ALPHA, ALL_BETA)


class Component(msgspec.Struct, frozen=True):
    """Versions and gates of one running component. Option builders read it once, at start; no other code reads it."""

    versions: ComponentVersions
    gates: FeatureGates


def resolve(
    *,
    gates: str = "",
    emulation: str | None = None,
    min_compatibility: str | None = None,
    known: Iterable[Gate] = KNOWN,
    binary: Version = BINARY,
) -> Component:
    """Validate and resolve `--feature-gates`, `--emulation-version` and `--min-compatibility-version` together.

    The gate CompatibilityVersions is resolved at the binary version, because it decides whether another version may be
    emulated.
    """
    wanted = feature_gates.parse(gates)
    known = tuple(known)
    own_gate = feature_gates.resolve(
        (gate for gate in known if gate.name == COMPATIBILITY_VERSIONS),
        ComponentVersions(binary, binary, binary),
        {name: on for name, on in wanted.items() if name in (COMPATIBILITY_VERSIONS, ALL_BETA)},
    )
    if not own_gate.enabled(COMPATIBILITY_VERSIONS) and (emulation is not None or min_compatibility is not None):
        raise GateError(
            f"--emulation-version and --min-compatibility-version need the feature gate {COMPATIBILITY_VERSIONS}: "
            "switch it on, or leave both flags out"
        )
    versions = ComponentVersions.resolve(emulation, min_compatibility, binary)
    others = feature_gates.resolve(
        (*(gate for gate in known if gate.name != COMPATIBILITY_VERSIONS), *_foreign(known, wanted, versions)),
        versions,
        {name: on for name, on in wanted.items() if name != COMPATIBILITY_VERSIONS},
    )
    return Component(versions, FeatureGates({**others.states, **own_gate.states}, others.warnings + own_gate.warnings))


def _foreign(known: tuple[Gate, ...], wanted: Mapping[str, bool], versions: ComponentVersions) -> Iterator[Gate]:
    """Yield the gates of Kubernetes that `wanted` switches off and that Mooring has no behaviour of its own for.

    Their fields are dropped then. Raise GateError where such a gate is to be switched on and is off by default.
    """
    ours = {gate.name for gate in known}
    strange = {name for name in wanted if name not in ours and name not in _ALL}
    if not strange and wanted.get(ALL_BETA, True):
        return
    from mooring.base.gate_history import is_on_by_default, kubernetes_gates  # noqa: PLC0415 - a table, rarely needed

    for name, gate in kubernetes_gates().items():
        if name in ours:
            continue
        if wanted.get(name) and not is_on_by_default(name, versions.emulation):
            raise GateError(f"cannot set feature gate {name} to true: Mooring does not have the feature")
        spec = gate.at(versions.emulation)
        is_switched_as_beta = wanted.get(ALL_BETA) is False and spec is not None and spec.stage is Stage.BETA
        if name in strange or (is_switched_as_beta and spec is not None and spec.default):
            yield gate
