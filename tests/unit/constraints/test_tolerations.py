"""Tolerations against taints: every operator, every gate, the first untolerated taint, and how long a pod may stay."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.api import resource_v1
from mooring.api.core_v1 import Taint, Toleration
from mooring.base import logs
from mooring.constraints import tolerations
from mooring.constraints.columns import TaintColumns
from mooring.constraints.options import ConstraintOptions

ALL_ON = ConstraintOptions()
ALL_OFF = ConstraintOptions(numeric_tolerations=False, semver_operators=False, cel=False)


def taint(value: str = "", key: str = "sla", effect: str = "NoSchedule", added: str | None = None) -> Taint:
    return Taint(key=key, value=value, effect=effect, time_added=added)


def tol(
    operator: str = "", value: str = "", key: str = "sla", effect: str = "", seconds: int | None = None
) -> Toleration:
    return Toleration(key=key, operator=operator, value=value, effect=effect, toleration_seconds=seconds)


def cel(expression: str, seconds: int | None = None) -> Toleration:
    return Toleration(expression=expression, toleration_seconds=seconds)


@pytest.fixture(autouse=True)
def nothing_said_yet() -> Iterator[None]:
    logs._once.clear()
    yield
    logs._once.clear()


@dataclass(frozen=True)
class Case:
    id: str
    toleration: Toleration
    taint: Taint
    expected: bool


@dataclass(frozen=True)
class Several:
    id: str
    pod: list[Toleration]
    untolerated: str | None


UNGATED = [
    Case("no operator means Equal", tol("", "a"), taint("a"), True),
    Case("Equal with the same value", tol("Equal", "a"), taint("a"), True),
    Case("Equal with another value", tol("Equal", "a"), taint("b"), False),
    Case("Equal does not compare numbers", tol("Equal", "0950"), taint("950"), False),
    Case("Exists with any value", tol("Exists"), taint("b"), True),
    Case("another key", tol("Exists", key="other"), taint("b"), False),
    Case("Exists without a key is a wildcard", tol("Exists", key=""), taint("b"), True),
    Case("the same effect", tol("Exists", effect="NoSchedule"), taint("b"), True),
    Case("another effect", tol("Exists", effect="NoExecute"), taint("b"), False),
    Case("no effect is every effect", tol("Exists"), taint("b", effect="NoExecute"), True),
    Case("an unknown operator never matches", tol("Ge", "1"), taint("1"), False),
]


@pytest.mark.req("5471.1")
@pytest.mark.parametrize("options", [ALL_ON, ALL_OFF], ids=["gates on", "gates off"])
@pytest.mark.parametrize("case", UNGATED, ids=lambda case: case.id)
def test_equal_and_exists(case: Case, options: ConstraintOptions) -> None:
    assert tolerations.tolerates(case.toleration, case.taint, options) is case.expected


NUMERIC = [
    Case("settled question 1: Gt asks for a greater taint", tol("Gt", "950"), taint("960"), True),
    Case("Gt is not at least", tol("Gt", "950"), taint("950"), False),
    Case("Gt refuses a smaller taint", tol("Gt", "950"), taint("940"), False),
    Case("Lt asks for a smaller taint", tol("Lt", "950"), taint("940"), True),
    Case("Lt is not at most", tol("Lt", "950"), taint("950"), False),
    Case("negative numbers", tol("Gt", "-5"), taint("-4"), True),
    Case("zero", tol("Lt", "0"), taint("-1"), True),
    Case("the smallest number", tol("Gt", "-9223372036854775808"), taint("-9223372036854775807"), True),
    Case("the greatest number", tol("Lt", "9223372036854775807"), taint("9223372036854775806"), True),
    Case("a taint beyond 64 bits", tol("Gt", "1"), taint("9223372036854775808"), False),
    Case("a taint far beyond 64 bits", tol("Gt", "1"), taint("9" * 5000), False),
    Case("a toleration beyond 64 bits", tol("Lt", "9223372036854775808"), taint("1"), False),
    Case("settled question 2: a leading zero in the taint", tol("Gt", "900"), taint("0950"), False),
    Case("a leading zero in the toleration", tol("Gt", "0900"), taint("950"), False),
    Case("a plus sign", tol("Gt", "1"), taint("+5"), False),
    Case("minus zero", tol("Gt", "-1"), taint("-0"), False),
    Case("a space", tol("Gt", "1"), taint(" 5"), False),
    Case("an underscore", tol("Gt", "1"), taint("1_000"), False),
    Case("digits of another script", tol("Gt", "1"), taint("\u0665"), False),
    Case("a decimal", tol("Gt", "1"), taint("95.5"), False),
    Case("a word", tol("Gt", "1"), taint("high"), False),
    Case("no value", tol("Gt", "1"), taint(""), False),
    Case("another key", tol("Gt", "1", key="other"), taint("5"), False),
    Case("another effect", tol("Gt", "1", effect="NoExecute"), taint("5"), False),
    Case("NoExecute", tol("Gt", "1", effect="NoExecute"), taint("5", effect="NoExecute"), True),
    Case("PreferNoSchedule", tol("Lt", "9", effect="PreferNoSchedule"), taint("5", effect="PreferNoSchedule"), True),
]


@pytest.mark.req("5471.1", "5471.4")
@pytest.mark.parametrize("case", NUMERIC, ids=lambda case: case.id)
def test_numbers(case: Case) -> None:
    assert tolerations.tolerates(case.toleration, case.taint, ALL_ON) is case.expected


SEMVER = [
    Case("SemverGt asks for a newer taint", tol("SemverGt", "v3.25.0"), taint("v3.27.2"), True),
    Case("SemverGt is not at least", tol("SemverGt", "3.27.2"), taint("v3.27.2"), False),
    Case("SemverLt asks for an older taint", tol("SemverLt", "v3.28.0"), taint("v3.27.2"), True),
    Case("SemverLt is not at most", tol("SemverLt", "3.27.2"), taint("3.27.2"), False),
    Case("SemverEq ignores how it is written", tol("SemverEq", "v3.27"), taint("3.27.0"), True),
    Case("SemverEq ignores build metadata", tol("SemverEq", "1.2.3+a"), taint("1.2.3"), True),
    Case("SemverEq sees the pre-release", tol("SemverEq", "1.2.3"), taint("1.2.3-rc.1"), False),
    Case("a pre-release is older", tol("SemverLt", "1.2.3"), taint("1.2.3-rc.1"), True),
    Case("versions are no texts", tol("SemverGt", "1.9.0"), taint("1.10.0"), True),
    Case("a taint that is no version", tol("SemverGt", "1.0.0"), taint("containerd"), False),
    Case("a toleration that is no version", tol("SemverGt", "x"), taint("1.0.0"), False),
    Case("no value", tol("SemverGt", "1.0.0"), taint(""), False),
    Case("another key", tol("SemverGt", "1.0.0", key="other"), taint("2.0.0"), False),
    Case("another effect", tol("SemverGt", "1.0.0", effect="NoExecute"), taint("2.0.0"), False),
]


@pytest.mark.req("5721.1", "5721.7")
@pytest.mark.parametrize("case", SEMVER, ids=lambda case: case.id)
def test_versions(case: Case) -> None:
    assert tolerations.tolerates(case.toleration, case.taint, ALL_ON) is case.expected


class TestTolerationCELMatching:
    """Named in KEP-5500's test plan, with its cases."""

    MAINTENANCE = taint("security-patch", "maintenance")
    CASES = (
        Case("CEL expression matches taint key", cel("taint.key == 'maintenance'"), MAINTENANCE, True),
        Case("CEL expression does not match taint key", cel("taint.key == 'other'"), MAINTENANCE, False),
        Case(
            "CEL expression matches taint key and value",
            cel("taint.key == 'maintenance' && taint.value == 'security-patch'"),
            MAINTENANCE,
            True,
        ),
        Case(
            "CEL expression matches taint key but not value",
            cel("taint.key == 'maintenance' && taint.value == 'x'"),
            MAINTENANCE,
            False,
        ),
        Case("CEL expression matches taint effect", cel("taint.effect == 'NoSchedule'"), MAINTENANCE, True),
        Case("CEL expression with startsWith", cel("taint.key.startsWith('main')"), MAINTENANCE, True),
        Case("CEL expression with contains", cel("taint.value.contains('patch')"), MAINTENANCE, True),
        Case("CEL expression tolerates all taints with true", cel("true"), MAINTENANCE, True),
        Case("a version range", cel("semver.compare(taint.value, '>=3.25')"), taint("v3.27.2"), True),
        Case("a taint value that is no version", cel("semver.compare(taint.value, '>=3.25')"), taint("x"), False),
        Case("an error in one branch", cel("int(taint.value) > 5 || taint.key == 'sla'"), taint("high"), True),
        Case("an error", cel("int(taint.value) > 5"), taint("high"), False),
        Case("an expression that does not compile", cel("taint.nothing"), taint("high"), False),
        Case("an expression that is no bool", cel("taint.key"), taint("high"), False),
        Case(
            "settled question 9: timeAdded is a timestamp",
            cel("taint.timeAdded > timestamp('2026-01-01T00:00:00Z')"),
            taint(added="2026-03-01T12:00:00Z"),
            True,
        ),
        Case("timeAdded is absent", cel("has(taint.timeAdded)"), taint(), False),
        Case("timeAdded is there", cel("has(taint.timeAdded)"), taint(added="2026-03-01T12:00:00Z"), True),
        Case("timeAdded is no time", cel("has(taint.timeAdded)"), taint(added="yesterday"), False),
        Case("reading an absent timeAdded", cel("taint.timeAdded > timestamp('2026-01-01T00:00:00Z')"), taint(), False),
    )

    @pytest.mark.req("5500.15", "5500.2", "5500.6")
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
    def test_one_taint(self, case: Case) -> None:
        assert tolerations.tolerates(case.toleration, case.taint, ALL_ON) is case.expected

    SEVERAL = (
        Several("multiple taints with one CEL toleration matching all", [cel("taint.key != 'x'")], None),
        Several("multiple taints with CEL toleration matching only some", [cel("taint.key == 'a'")], "b"),
        Several("mix of CEL and standard tolerations", [cel("taint.key == 'a'"), tol("Exists", key="b")], None),
    )

    @pytest.mark.req("5500.15")
    @pytest.mark.parametrize("case", SEVERAL, ids=lambda case: case.id)
    def test_several_taints(self, case: Several) -> None:
        found = tolerations.find_untolerated([taint("1", "a"), taint("2", "b")], case.pod, ALL_ON)
        assert (found.key if found else None) == case.untolerated


@dataclass(frozen=True)
class Gated:
    id: str
    toleration: Toleration
    gate: str


GATED = [
    Gated("Gt", tol("Gt", "1"), "numeric_tolerations"),
    Gated("Lt", tol("Lt", "9"), "numeric_tolerations"),
    Gated("SemverGt", tol("SemverGt", "1"), "semver_operators"),
    Gated("SemverLt", tol("SemverLt", "9"), "semver_operators"),
    Gated("SemverEq", tol("SemverEq", "5"), "semver_operators"),
    Gated("expression", cel("true"), "cel"),
]


@pytest.mark.req("5471.3c", "5721.6", "5500.9")
@pytest.mark.parametrize("off", ["numeric_tolerations", "semver_operators", "cel"])
@pytest.mark.parametrize("case", GATED, ids=lambda case: case.id)
def test_settled_question_4_a_gate_that_is_off_fails_closed(case: Gated, off: str) -> None:
    options = replace(ALL_ON, **{off: False})
    assert tolerations.tolerates(case.toleration, taint("5"), options) is (off != case.gate)


@pytest.mark.req("5500.9")
@pytest.mark.parametrize("options", [ALL_ON, ALL_OFF], ids=["gates on", "gates off"])
def test_settled_question_4_an_expression_is_never_a_wildcard(options: ConstraintOptions) -> None:
    valueless = taint("", "maintenance")
    assert not tolerations.tolerates(cel("taint.key == 'other'"), valueless, options)
    with_exists = Toleration(expression="taint.key == 'other'", operator="Exists")
    assert not tolerations.tolerates(with_exists, valueless, options)


class TestUntolerated:
    TAINTS = (taint("1", "prefer", "PreferNoSchedule"), taint("2", "first"), taint("3", "second", "NoExecute"))

    def test_the_first_untolerated_taint_is_found(self) -> None:
        assert tolerations.find_untolerated(self.TAINTS, [], ALL_ON) is self.TAINTS[1]

    def test_a_tolerated_one_is_skipped(self) -> None:
        assert tolerations.find_untolerated(self.TAINTS, [tol("Exists", key="first")], ALL_ON) is self.TAINTS[2]

    def test_nothing_is_left(self) -> None:
        assert tolerations.find_untolerated(self.TAINTS, [tol("Exists", key="")], ALL_ON) is None

    @pytest.mark.parametrize(("value", "shown"), [("950", "{sla: 950}"), ("", "{sla: }")])
    def test_settled_question_6_events_name_the_taint(self, value: str, shown: str) -> None:
        assert tolerations.untolerated_reason(taint(value)) == f"node(s) had untolerated taint {shown}"

    def test_only_the_effects_asked_for_count(self) -> None:
        found = tolerations.find_untolerated(self.TAINTS, [], ALL_ON, frozenset({"NoExecute"}))
        assert found is self.TAINTS[2]

    @pytest.mark.req("5471.6", "5500.8")
    @pytest.mark.parametrize(
        ("pod", "count"),
        [
            ([], 2),
            ([tol("Gt", "1", key="prefer")], 1),
            ([tol("SemverGt", "1", key="prefer")], 1),
            ([cel("taint.effect == 'PreferNoSchedule'")], 0),
        ],
        ids=["none", "a number", "a version", "an expression"],
    )
    def test_untolerated_preferences_are_counted(self, pod: list[Toleration], count: int) -> None:
        columns = TaintColumns(ALL_ON)
        columns.put(0, [*self.TAINTS, taint("2", "prefer", "PreferNoSchedule")])
        assert columns.untolerated_preferences(pod)[0] == count


BOUND = datetime(2026, 1, 1, tzinfo=UTC)


def no_execute(value: str = "960", key: str = "sla", added: datetime | None = None) -> Taint:
    return taint(value, key, "NoExecute", added.isoformat().replace("+00:00", "Z") if added else None)


@dataclass(frozen=True)
class StayCase:
    id: str
    taints: list[Taint]
    pod: list[Toleration]
    seconds: int | None


STAYS = [
    StayCase("no taint", [], [], None),
    StayCase("other effects do not evict", [taint("1"), taint("1", effect="PreferNoSchedule")], [], None),
    StayCase("an unmatched taint evicts at once", [no_execute()], [], 0),
    StayCase("a matched taint without seconds", [no_execute()], [tol("Exists")], None),
    StayCase("a matched taint with seconds", [no_execute()], [tol("Gt", "950", seconds=30)], 30),
    StayCase("KEP-5471's story 2: the value drops", [no_execute("940")], [tol("Gt", "950", seconds=30)], 0),
    StayCase("the first match counts", [no_execute()], [tol("Exists", seconds=60), tol("Exists", seconds=5)], 60),
    StayCase("a first match without seconds", [no_execute()], [tol("Exists"), tol("Exists", seconds=5)], None),
    StayCase(
        "the smallest period over the taints wins",
        [no_execute(key="a"), no_execute(key="b")],
        [tol("Exists", key="a", seconds=60), tol("Exists", key="b", seconds=20)],
        20,
    ),
    StayCase(
        "one taint is unmatched",
        [no_execute(key="a"), no_execute(key="b")],
        [tol("Exists", key="a", seconds=60)],
        0,
    ),
    StayCase("negative seconds are none", [no_execute()], [tol("Exists", seconds=-5)], 0),
    StayCase("an expression with seconds", [no_execute()], [cel("taint.key == 'sla'", seconds=7)], 7),
    StayCase("a version", [no_execute("1.2.3")], [tol("SemverGt", "1.0", seconds=9)], 9),
]


@pytest.mark.req("5471.7", "5500.8")
@pytest.mark.parametrize("case", STAYS, ids=lambda case: case.id)
def test_settled_question_16_how_long_a_pod_may_stay(case: StayCase) -> None:
    assert tolerations.permitted_stay(case.taints, case.pod, ALL_ON).seconds == case.seconds
    leaves = tolerations.eviction_time(case.taints, case.pod, BOUND, ALL_ON, now=BOUND)
    assert leaves == (None if case.seconds is None else BOUND + timedelta(seconds=case.seconds))


@pytest.mark.req("5471.7")
@pytest.mark.parametrize(
    ("added", "start"),
    [(BOUND + timedelta(hours=1), BOUND + timedelta(hours=1)), (BOUND - timedelta(hours=1), BOUND), (None, BOUND)],
    ids=["the taint came after the pod", "the taint was there before the pod", "the taint does not say"],
)
def test_a_countdown_starts_at_the_later_of_taint_and_binding(added: datetime | None, start: datetime) -> None:
    leaves = tolerations.eviction_time([no_execute(added=added)], [tol("Exists", seconds=30)], BOUND, ALL_ON, now=BOUND)
    assert leaves == start + timedelta(seconds=30)


@pytest.mark.req("5471.7")
@pytest.mark.parametrize("hours", [-1, 1], ids=["added before", "added in the future"])
def test_an_untolerated_taint_evicts_at_once_whatever_its_time(hours: int) -> None:
    now = BOUND + timedelta(seconds=5)
    leaves = tolerations.eviction_time([no_execute(added=BOUND + timedelta(hours=hours))], [], BOUND, ALL_ON, now=now)
    assert leaves is not None
    assert leaves <= now


@pytest.mark.req("5471.7")
def test_the_countdown_that_ends_first_decides() -> None:
    taints = [no_execute(key="a", added=BOUND), no_execute(key="b", added=BOUND + timedelta(seconds=50))]
    pod = [tol("Exists", key="a", seconds=60), tol("Exists", key="b", seconds=20)]
    assert tolerations.eviction_time(taints, pod, BOUND, ALL_ON, now=BOUND) == BOUND + timedelta(seconds=60)


@pytest.mark.parametrize("added", ["yesterday", "", None, "2026-13-01T00:00:00Z"])
def test_a_time_that_cannot_be_read_counts_as_absent(added: str | None) -> None:
    odd = taint("", effect="NoExecute", added=added)
    leaves = tolerations.eviction_time([odd], [tol("Exists", seconds=5)], BOUND, ALL_ON, now=BOUND)
    assert leaves == BOUND + timedelta(seconds=5)


@pytest.mark.parametrize("seconds", [2**62, 2**40])
def test_a_period_beyond_the_calendar_is_harmless(seconds: int) -> None:
    leaves = tolerations.eviction_time([no_execute()], [tol("Exists", seconds=seconds)], BOUND, ALL_ON, now=BOUND)
    assert leaves is not None
    assert leaves.year == 9999


DEVICE = [
    ("Equal", "5", True),
    ("", "5", True),
    ("Equal", "4", False),
    ("Exists", "", True),
    ("Gt", "4", True),
    ("Lt", "6", True),
    ("Lt", "5", False),
    ("SemverGt", "4", False),
    ("SemverEq", "5", False),
]


@pytest.mark.req("5471.8")
@pytest.mark.parametrize(("operator", "value", "expected"), DEVICE)
def test_device_tolerations(operator: str, value: str, expected: bool) -> None:
    toleration = resource_v1.DeviceToleration(key="budget", operator=operator, value=value)
    device = resource_v1.DeviceTaint(key="budget", value="5", effect="NoSchedule")
    assert tolerations.tolerates_device_taint(toleration, device, ALL_ON) is expected
    if operator in ("Lt", "Gt"):
        assert not tolerations.tolerates_device_taint(toleration, device, ALL_OFF)


@pytest.mark.req("5471.8")
def test_device_tolerations_choose_key_and_effect() -> None:
    device = resource_v1.DeviceTaint(key="budget", value="5", effect="NoSchedule")
    other_key = resource_v1.DeviceToleration(key="other", operator="Exists")
    other_effect = resource_v1.DeviceToleration(key="budget", operator="Exists", effect="NoExecute")
    assert not tolerations.tolerates_device_taint(other_key, device, ALL_ON)
    assert not tolerations.tolerates_device_taint(other_effect, device, ALL_ON)


@pytest.mark.req("5471.8")
def test_the_first_untolerated_taint_of_a_device_is_found() -> None:
    reported, tolerated, fatal = (
        resource_v1.DeviceTaint(key="budget", value=value, effect=effect)
        for value, effect in [("1", "None"), ("50", "NoSchedule"), ("8", "NoExecute")]
    )
    pod = [resource_v1.DeviceToleration(key="budget", operator="Gt", value="24")]
    assert tolerations.find_untolerated_device_taint([reported, tolerated, fatal], pod, ALL_ON) is fatal
    assert tolerations.find_untolerated_device_taint([reported, tolerated], pod, ALL_ON) is None


@pytest.mark.req("5471.8")
def test_a_device_taint_evicts_after_its_period() -> None:
    device = resource_v1.DeviceTaint(key="budget", value="5", effect="NoExecute")
    patient = resource_v1.DeviceToleration(key="budget", operator="Gt", value="1", toleration_seconds=40)
    assert tolerations.device_eviction_time([device], [patient], BOUND, ALL_ON, now=BOUND) == BOUND + timedelta(
        seconds=40
    )
    assert tolerations.device_eviction_time([device], [], BOUND, ALL_ON, now=BOUND) == BOUND


@dataclass(frozen=True)
class LogCase:
    id: str
    toleration: Toleration
    taint: Taint
    level: int
    message: str
    fields: dict[str, str]


LOGGED = [
    LogCase(
        "a taint that is no number",
        tol("Gt", "1"),
        taint("high"),
        logging.WARNING,
        'Failed to parse taint value "high" as integer for numeric comparison',
        {"key": "sla"},
    ),
    LogCase(
        "a taint that is no version",
        tol("SemverGt", "1"),
        taint("new"),
        logging.ERROR,
        "failed to parse taint value as semantic version",
        {"taint": "new"},
    ),
    LogCase(
        "an expression that fails",
        cel("int(taint.value) > 5"),
        taint("high"),
        logging.ERROR,
        "CEL Runtime error",
        {"expression": "int(taint.value) > 5"},
    ),
    LogCase(
        "an expression that does not compile",
        cel("taint.nothing"),
        taint("high"),
        logging.ERROR,
        "failed to compile CEL expression",
        {"expression": "taint.nothing"},
    ),
]


@pytest.mark.req("5471.4", "5721.7", "5500.6")
@pytest.mark.parametrize("case", LOGGED, ids=lambda case: case.id)
def test_a_cause_is_logged_once(case: LogCase, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="mooring")
    for _ in range(3):
        tolerations.tolerates(case.toleration, case.taint, ALL_ON)
    assert [record.levelno for record in caplog.records] == [case.level]
    assert caplog.records[0].getMessage().startswith(case.message)
    assert case.fields.items() <= vars(caplog.records[0])["fields"].items()


TEXT = st.text(max_size=12)
OPERATORS = st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "SemverLt", "SemverGt", "SemverEq"])


@settings(max_examples=80, deadline=None)
@given(
    TEXT, st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "SemverLt", "SemverGt", "SemverEq"]) | TEXT, TEXT, TEXT
)
def test_nothing_that_could_be_stored_raises(key: str, operator: str, value: str, expression: str) -> None:
    odd = Taint(key=key, value=value, effect="NoExecute", time_added=value)
    pod = [
        Toleration(key=key, operator=operator, value=expression, toleration_seconds=3),
        Toleration(expression=expression),
    ]
    tolerations.find_untolerated([odd], pod, ALL_ON)
    tolerations.eviction_time([odd], pod, BOUND, ALL_ON, now=BOUND)


def test_options_come_from_the_gates() -> None:
    from mooring.base import component
    from mooring.constraints import options

    assert options.from_gates(component.resolve().gates) == ALL_ON
    assert options.from_gates(component.resolve(emulation="1.36").gates) == ALL_OFF


FEW = st.sampled_from(["", "a", "b", "3"])
EFFECTS = st.sampled_from(["", "NoSchedule", "NoExecute"])
LISTED = st.builds(Toleration, key=FEW, operator=OPERATORS, value=FEW, effect=EFFECTS) | st.builds(
    Toleration, expression=st.sampled_from(["taint.key == 'a'", "taint.value == taint.effect", "taint.value < 'b'"])
)


@pytest.mark.req("5471.4", "5721.9", "5500.6")
@settings(max_examples=200, deadline=None)
@given(st.lists(LISTED, max_size=8), st.builds(Taint, key=FEW, value=FEW, effect=EFFECTS))
def test_the_index_finds_the_first_toleration_that_matches(pod: list[Toleration], on_node: Taint) -> None:
    expected = next((index for index, each in enumerate(pod) if tolerations.tolerates(each, on_node, ALL_ON)), None)
    assert tolerations.index_tolerations(pod, ALL_ON).first_match(on_node) == expected


@pytest.mark.req("S.6")
def test_a_thousand_tolerations_are_looked_up_and_not_compared_with_every_taint() -> None:
    compared = 0

    def compare(toleration: Toleration, on_node: Taint, options: ConstraintOptions) -> bool:
        nonlocal compared
        compared += 1
        return tolerations.tolerates(toleration, on_node, options)

    looked_up = [Toleration(key="k", operator="Equal", value=str(number)) for number in range(1000)]
    pod = [*looked_up, Toleration(key="k", operator="Gt", value="1500"), Toleration(key="k", operator="Exists")]
    index = tolerations.TolerationIndex(pod, compare, ALL_ON)
    found = [index.first_match(Taint(key="k", value=str(number), effect="NoExecute")) for number in range(2000)]
    assert found == [*range(1000), *[1001] * 501, *[1000] * 499]
    assert compared == 1000
