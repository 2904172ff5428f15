"""What a component is started with: its versions and gates, resolved together from the flags that every one takes."""

from collections.abc import Iterable

import msgspec

from mooring.base import gates as feature_gates
from mooring.base.gates import ALL_BETA, FeatureGates, Gate, GateError
from mooring.base.known_gates import COMPATIBILITY_VERSIONS, KNOWN
from mooring.base.version import BINARY, ComponentVersions, Version


class Component(msgspec.Struct, frozen=True):
    """Versions and gates of one running component. Option builders read it once; nothing else does."""

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
    """Judge `--feature-gates`, `--emulation-version` and `--min-compatibility-version` together.

    The gate CompatibilityVersions is judged at the binary version, because it decides whether there is any other.
    """
    wanted = feature_gates.parse(gates)
    known = tuple(known)
    own = feature_gates.resolve(
        (gate for gate in known if gate.name == COMPATIBILITY_VERSIONS),
        ComponentVersions(binary, binary, binary),
        {name: on for name, on in wanted.items() if name in (COMPATIBILITY_VERSIONS, ALL_BETA)},
    )
    if not own.enabled(COMPATIBILITY_VERSIONS) and (emulation is not None or min_compatibility is not None):
        raise GateError(
            f"--emulation-version and --min-compatibility-version need the feature gate {COMPATIBILITY_VERSIONS}: "
            "switch it on, or leave both flags out"
        )
    versions = ComponentVersions.resolve(emulation, min_compatibility, binary)
    others = feature_gates.resolve(
        (gate for gate in known if gate.name != COMPATIBILITY_VERSIONS),
        versions,
        {name: on for name, on in wanted.items() if name != COMPATIBILITY_VERSIONS},
    )
    return Component(versions, FeatureGates({**others.states, **own.states}, others.warnings + own.warnings))
