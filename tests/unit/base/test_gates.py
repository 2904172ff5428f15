"""What a gate is at each version, and what may be asked of it."""

from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest

from mooring.base import component
from mooring.base.gates import Gate, GateError, Spec, Stage, parse, resolve
from mooring.base.known_gates import CEL, COMPARISON_OPERATORS, COMPATIBILITY_VERSIONS, KNOWN, SEMVER_OPERATORS
from mooring.base.version import ComponentVersions, Version


def spec(version: str, default: bool, stage: Stage, *, locked: bool = False, compatible: str = "") -> Spec:
    since = Version.parse(version)
    return Spec(since, default, stage, locked, Version.parse(compatible) if compatible else None)


SUBJECTS = (
    Gate("Introduced", "alpha at 1.37", (spec("1.37", False, Stage.ALPHA),)),
    Gate("ToBeta", "beta at 1.37", (spec("1.36", False, Stage.ALPHA), spec("1.37", True, Stage.BETA))),
    Gate("ToGA", "GA at 1.37", (spec("1.36", True, Stage.BETA), spec("1.37", True, Stage.GA, locked=True))),
    Gate("Removed", "removed at 1.37", (spec("1.35", True, Stage.BETA), spec("1.37", False, Stage.REMOVED))),
    Gate("Old", "deprecated", (spec("1.30", False, Stage.DEPRECATED),)),
    Gate("Careful", "waits for old servers to go", (spec("1.36", True, Stage.BETA, compatible="1.36"),)),
    Gate(
        "Grown",
        "GA at 1.37, with what old servers cannot read",
        (spec("1.35", True, Stage.BETA, compatible="1.35"), spec("1.37", True, Stage.GA, locked=True)),
    ),
    Gate("Child", "needs ToBeta", (spec("1.36", False, Stage.BETA),), needs=("ToBeta",)),
)


@dataclass(frozen=True)
class Case:
    """One row: at an emulated version with wishes, what is on, or why it is refused."""

    name: str
    emulation: str
    wanted: str = ""
    on: set[str] = field(default_factory=set)
    off: set[str] = field(default_factory=set)
    refused: str = ""
    warning: str = ""
    min_compatibility: str | None = None


GRID = [
    Case(
        "an alpha gate introduced later may not be set", "1.36", "Introduced=true", refused="does not exist at .* 1.36"
    ),
    Case("a gate that does not exist yet may not be switched off either", "1.36", "Introduced=false", refused="1.37"),
    Case("an alpha gate is off", "1.37", off={"Introduced"}),
    Case("an alpha gate can be switched on at the binary version", "1.37", "Introduced=true", on={"Introduced"}),
    Case("a gate that was alpha before beta is off before", "1.36", off={"ToBeta"}),
    Case("a gate that was alpha may not be switched on under emulation", "1.36", "ToBeta=true", refused="alpha"),
    Case("a gate that was alpha may be switched off under emulation", "1.36", "ToBeta=false", off={"ToBeta"}),
    Case("a gate that became beta is on", "1.37", on={"ToBeta"}),
    Case("a gate that became beta can be switched off", "1.37", "ToBeta=false", off={"ToBeta"}),
    Case("a beta gate can be switched off where it was beta", "1.36", "ToGA=false", off={"ToGA"}),
    Case("a gate that became GA is on", "1.37", on={"ToGA"}),
    Case("a gate that became GA may not be switched off", "1.37", "ToGA=false", refused="locked to true"),
    Case("a locked gate may be set to its default", "1.37", "ToGA=true", on={"ToGA"}, warning="ToGA=true"),
    Case("a removed gate was on before", "1.36", on={"Removed"}),
    Case("a removed gate could be switched off before", "1.36", "Removed=false", off={"Removed"}),
    Case("a removed gate does not exist", "1.37", off={"Removed"}),
    Case("a removed gate may not be set", "1.37", "Removed=true", refused="removed in 1.37"),
]
RULES = [
    Case("an unknown gate is refused", "1.37", "Nonsense=true", refused="unrecognized feature gate: Nonsense"),
    Case("a deprecated gate can be set, with a warning", "1.37", "Old=true", on={"Old"}, warning="Deprecated"),
    Case("AllAlpha switches alpha gates on", "1.37", "AllAlpha=true", on={"Introduced"}),
    Case("AllAlpha is refused under emulation", "1.36", "AllAlpha=true", refused="alpha features"),
    Case("AllAlpha=false is fine under emulation", "1.36", "AllAlpha=false", off={"ToBeta"}),
    Case("AllBeta switches beta gates off", "1.37", "AllBeta=false", off={"ToBeta", "Careful"}, on={"ToGA"}),
    Case("a gate's own word counts more", "1.37", "AllBeta=false,ToBeta=true", on={"ToBeta"}, off={"Careful"}),
    Case("a gate needs the gates it depends on", "1.37", "Child=true,ToBeta=false", refused="depends on .* ToBeta"),
    Case("a gate is on with those it depends on", "1.37", "Child=true", on={"Child", "ToBeta"}),
    Case("below its minimum compatibility a default is off", "1.37", off={"Careful"}, min_compatibility="1.35"),
    Case("at its minimum compatibility it is on", "1.37", on={"Careful"}, min_compatibility="1.36"),
    Case(
        "below its minimum compatibility it can be switched on, with a warning",
        "1.37",
        "Careful=true",
        on={"Careful"},
        min_compatibility="1.35",
        warning="Careful is on although its default needs a minimum compatibility version of 1.36: servers of 1.35",
    ),
    Case(
        "below its minimum compatibility AllBeta switches it on too, with a warning",
        "1.37",
        "AllBeta=true,Child=false",
        on={"Careful"},
        min_compatibility="1.35",
        warning="servers of 1.35 cannot read what uses it",
    ),
    Case("a later stage keeps the minimum compatibility version", "1.37", off={"Grown"}, min_compatibility="1.34"),
    Case("at that version the later stage is on", "1.37", on={"Grown"}, min_compatibility="1.35"),
    Case("a gate is removed by the emulation version alone", "1.37", off={"Removed"}, min_compatibility="1.35"),
    Case(
        "a removed gate may not be set, however low the minimum compatibility version is",
        "1.37",
        "Removed=true",
        refused="removed in 1.37",
        min_compatibility="1.35",
    ),
]


@pytest.mark.req("4330.2", "4330.3")
@pytest.mark.parametrize("case", GRID + RULES, ids=lambda case: case.name)
def test_gates_by_emulated_version(case: Case) -> None:
    versions = ComponentVersions.resolve(case.emulation, case.min_compatibility)
    if case.refused:
        with pytest.raises(GateError, match=case.refused):
            resolve(SUBJECTS, versions, parse(case.wanted))
        return
    gates = resolve(SUBJECTS, versions, parse(case.wanted))
    assert {name for name in case.on if gates.enabled(name)} == case.on
    assert {name for name in case.off if gates.enabled(name)} == set()
    assert case.warning in "".join(gates.warnings)
    assert bool(case.warning) == bool(gates.warnings)


@pytest.mark.req("4330.2")
@pytest.mark.parametrize("text", ["A", "=true", "A=maybe", "A=true,B"])
def test_a_malformed_flag_says_what_to_write(text: str) -> None:
    with pytest.raises(GateError, match="write"):
        parse(text)


@pytest.mark.req("4330.2")
def test_spaces_and_empty_parts_of_the_flag_do_not_matter() -> None:
    assert parse(" A = true ,, B=FALSE,") == {"A": True, "B": False}


@pytest.mark.req("4330.2")
@pytest.mark.parametrize("emulation", ["1.31", "1.34", "1.36", "1.37"])
@pytest.mark.parametrize("name", [CEL, COMPARISON_OPERATORS, SEMVER_OPERATORS])
def test_the_three_new_gates_are_on_from_1_37(name: str, emulation: str) -> None:
    assert component.resolve(emulation=emulation).gates.enabled(name) == (emulation == "1.37")


@pytest.mark.req("4330.2", "4330.7")
@pytest.mark.parametrize(
    ("min_compatibility", "on"),
    [
        ("1.34", set()),
        ("1.35", {CEL, COMPARISON_OPERATORS}),
        ("1.36", {CEL, COMPARISON_OPERATORS, SEMVER_OPERATORS}),
    ],
)
def test_the_three_new_gates_wait_for_the_minimum_compatibility_version(min_compatibility: str, on: set[str]) -> None:
    gates = component.resolve(min_compatibility=min_compatibility).gates
    assert {name for name in (CEL, COMPARISON_OPERATORS, SEMVER_OPERATORS) if gates.enabled(name)} == on


@pytest.mark.req("4330.9")
def test_compatibility_versions_is_evaluated_at_the_binary_version() -> None:
    assert component.resolve(emulation="1.31").gates.enabled(COMPATIBILITY_VERSIONS)
    without = component.resolve(gates=f"{COMPATIBILITY_VERSIONS}=false")
    assert not without.gates.enabled(COMPATIBILITY_VERSIONS)


@pytest.mark.req("4330.9")
@pytest.mark.parametrize(("emulation", "min_compatibility"), [("1.37", None), (None, "1.36")])
@pytest.mark.parametrize("gates", [f"{COMPATIBILITY_VERSIONS}=false", "AllBeta=false"])
def test_without_compatibility_versions_both_flags_are_refused(
    emulation: str | None, min_compatibility: str | None, gates: str
) -> None:
    with pytest.raises(GateError, match=COMPATIBILITY_VERSIONS):
        component.resolve(gates=gates, emulation=emulation, min_compatibility=min_compatibility)


@pytest.mark.req("4330.2")
def test_histories_are_in_order_and_needs_are_known() -> None:
    names = {gate.name for gate in KNOWN}
    assert len(names) == len(KNOWN)
    for gate in KNOWN:
        assert [spec.since for spec in gate.history] == sorted({spec.since for spec in gate.history})
        assert set(gate.needs) <= names


@pytest.mark.req("4330.2")
@pytest.mark.parametrize(
    ("emulation", "gates", "refused"),
    [
        ("1.34", "PreferSameTrafficDistribution=false", ""),
        ("1.34", "PreferSameTrafficDistribution=true", ""),
        ("1.37", "PreferSameTrafficDistribution=false", "locked to true since 1.35"),
        ("1.33", "PreferSameTrafficDistribution=true", "Mooring does not have the feature"),
        ("1.33", "PreferSameTrafficDistribution=false", ""),
        ("1.32", "PreferSameTrafficDistribution=false", "does not exist at emulation version 1.32"),
        ("1.36", "ServiceTrafficDistribution=false", "was removed in 1.36"),
        ("1.37", "Nonsense=false", "unrecognized feature gate"),
    ],
)
def test_gates_that_mooring_does_not_know_can_be_switched_off(emulation: str, gates: str, refused: str) -> None:
    with pytest.raises(GateError, match=refused) if refused else nullcontext():
        found = component.resolve(emulation=emulation, gates=gates).gates
        assert found.enabled("PreferSameTrafficDistribution") is gates.endswith("true")


@pytest.mark.req("4330.2")
def test_all_beta_switches_foreign_gates_off_too() -> None:
    found = component.resolve(gates="AllBeta=false")
    assert not found.gates.states["AllowUnsafeMalformedObjectDeletion"].enabled
