"""Jobs and CronJobs: selectors, policies, indexes, suspended Jobs, schedules and time zones."""

from typing import Any

import pytest
from msgspec.structs import replace

from admission_kinds import ABSENT, Create, Update, stored
from admission_pods import ON, Tree
from mooring.admission.job import count_indexes
from mooring.api.cron_schedules import find_schedule_problem

RESTART = "spec.template.spec.restartPolicy"
INDEXED: Tree = {"completionMode": "Indexed", "completions": 3}


def spec(**fields: Any) -> Tree:
    return {"spec": fields}


def failure(*rules: Tree) -> Tree:
    return spec(podFailurePolicy={"rules": list(rules)})


def success(*rules: Tree) -> Tree:
    return spec(**INDEXED, successPolicy={"rules": list(rules)})


ON_EXIT: Tree = {"operator": "In", "values": [1, 2]}
RULE = "spec.podFailurePolicy.rules[0]"
CREATES = [
    Create(
        "a restart policy by default",
        "Job",
        spec(template={"spec": {"restartPolicy": ABSENT}}),
        [f'{RESTART}: Required value: valid values: "OnFailure", "Never"'],
    ),
    Create(
        "a selector of one's own",
        "Job",
        spec(selector={"matchLabels": {"app": "x"}}),
        [
            (
                'spec.selector: Invalid value: {"matchLabels":{"app":"x","batch.kubernetes.io/controller-uid":"UID"}}: '
                "`selector` not auto-generated"
            )
        ],
    ),
    Create(
        "a selector of one's own, on purpose", "Job", spec(manualSelector=True, selector={"matchLabels": {"app": "x"}})
    ),
    Create(
        "on purpose, but none",
        "Job",
        spec(manualSelector=True),
        [
            "spec.selector: Required value",
            'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`',
        ],
    ),
    Create(
        "negative numbers",
        "Job",
        spec(parallelism=-1, backoffLimit=-1),
        [
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    Create(
        "an index of nothing",
        "Job",
        spec(completionMode="Indexed", completions=ABSENT, parallelism=1),
        ["spec.completions: Required value: when completion mode is Indexed"],
    ),
    Create(
        "a limit per index without indexes",
        "Job",
        spec(backoffLimitPerIndex=1),
        ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    ),
    Create(
        "failed indexes without a limit",
        "Job",
        spec(**INDEXED, maxFailedIndexes=1),
        ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"],
    ),
    Create(
        "more failed indexes than indexes",
        "Job",
        spec(**INDEXED, maxFailedIndexes=4, backoffLimitPerIndex=1),
        ["spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"],
    ),
    Create(
        "a name that is too long with an index",
        "Job",
        {"metadata": {"name": "x" * 62}, **spec(**INDEXED)},
        [
            (
                f'metadata.name: Invalid value: "{"x" * 62}": will not able to create pod with invalid DNS label: '
                f"{'x' * 62}-2"
            )
        ],
    ),
    Create(
        "an unknown mode",
        "Job",
        spec(completionMode="Twice"),
        ['spec.completionMode: Unsupported value: "Twice": supported values: "NonIndexed", "Indexed"'],
    ),
    Create("a rule for exit codes", "Job", failure({"action": "FailJob", "onExitCodes": ON_EXIT})),
    Create(
        "a rule for nothing",
        "Job",
        failure({"action": "Ignore"}),
        [f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
    ),
    Create(
        "a rule without an action",
        "Job",
        failure({"onExitCodes": ON_EXIT}),
        [f'{RULE}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'],
    ),
    Create(
        "an index that fails without a limit",
        "Job",
        failure({"action": "FailIndex", "onExitCodes": ON_EXIT}),
        [f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'],
    ),
    Create(
        "exit codes out of order",
        "Job",
        failure({"action": "Count", "onExitCodes": {"operator": "In", "values": [2, 0, 2], "containerName": "d"}}),
        [
            (
                f'{RULE}.onExitCodes.containerName: Invalid value: "d": must be one of the container or '
                "initContainer names in "
                "the pod template"
            ),
            f"{RULE}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
            f"{RULE}.onExitCodes.values[2]: Duplicate value: 2",
            f"{RULE}.onExitCodes.values: Invalid value: [2,0,2]: must be ordered",
        ],
    ),
    Create(
        "a policy for pods that restart",
        "Job",
        {
            "spec": {
                **failure({"action": "FailJob", "onExitCodes": ON_EXIT})["spec"],
                "template": {"spec": {"restartPolicy": "OnFailure"}},
            }
        },
        [f'{RESTART}: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'],
    ),
    Create("success of the first", "Job", success({"succeededIndexes": "0,2", "succeededCount": 1})),
    Create(
        "success of more than there are",
        "Job",
        success({"succeededIndexes": "0-1", "succeededCount": 4}),
        [
            (
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 "
                "(the number of "
                "specified completions)"
            ),
            (
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 2 "
                "(the number of "
                "indexes in the specified succeededIndexes field)"
            ),
        ],
    ),
    Create(
        "success of an index that is not there",
        "Job",
        success({"succeededIndexes": "3"}),
        [
            (
                'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "3": error parsing '
                "succeededIndexes: too large "
                'index: "3"'
            )
        ],
    ),
    Create(
        "success without indexes",
        "Job",
        spec(successPolicy={"rules": [{"succeededCount": 1}]}),
        [
            (
                'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: '
                "requires indexed "
                "completion mode"
            )
        ],
    ),
    Create("another manager", "Job", spec(managedBy="example.com/mine")),
    Create(
        "a manager without a domain",
        "Job",
        spec(managedBy="mine"),
        ['spec.managedBy: Invalid value: "mine": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    Create("no schedule", "CronJob", spec(schedule=""), ["spec.schedule: Required value"]),
    Create(
        "no such minute",
        "CronJob",
        spec(schedule="60 * * * *"),
        ['spec.schedule: Invalid value: "60 * * * *": end of range (60) above maximum (59): 60'],
    ),
    Create(
        "a zone in the schedule",
        "CronJob",
        spec(schedule="TZ=UTC 0 * * * *"),
        [
            (
                'spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use '
                "timeZone field "
                "instead"
            )
        ],
    ),
    Create(
        "no such zone",
        "CronJob",
        spec(timeZone="Europe/Atlantis"),
        ['spec.timeZone: Invalid value: "Europe/Atlantis": unknown time zone Europe/Atlantis'],
    ),
    Create(
        "a zone out of bounds",
        "CronJob",
        spec(timeZone="../../etc/passwd"),
        ['spec.timeZone: Invalid value: "../../etc/passwd": unknown time zone ../../etc/passwd'],
    ),
    Create(
        "the server's own zone",
        "CronJob",
        spec(timeZone="Local"),
        [
            (
                'spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in '
                "https://www.iana.org/time-zones"
            )
        ],
    ),
    Create("a good zone", "CronJob", spec(timeZone="Europe/Berlin")),
    Create(
        "an unknown policy",
        "CronJob",
        spec(concurrencyPolicy="Queue"),
        ['spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace"'],
    ),
    Create(
        "a selector",
        "CronJob",
        spec(jobTemplate={"spec": {"selector": {}}}),
        [("spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated")],
    ),
    Create(
        "a long name",
        "CronJob",
        {"metadata": {"name": "x" * 53}},
        [f'metadata.name: Invalid value: "{"x" * 53}": must be no more than 52 characters'],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_a_create_is_validated(case: Create) -> None:
    assert [_without_uid(line) for line in case.validate()] == case.problems


def _without_uid(line: str) -> str:
    before, mark, rest = line.partition('controller-uid":"')
    return line if not mark else f"{before}{mark}UID{rest[36:]}"


PLACED = spec(template={"spec": {"nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists"}]}})
SUSPENDED = spec(suspend=True)
STOPPED: Tree = {
    "startTime": "2026-01-01T00:00:00Z",
    "conditions": [{"type": "Suspended", "status": "True"}],
}
UPDATES = [
    Update("more at once", "Job", {}, spec(parallelism=2)),
    Update("more in all", "Job", {}, spec(completions=2), ["spec.completions: Invalid value: 2: field is immutable"]),
    Update("more of both, by index", "Job", spec(**INDEXED, parallelism=3), spec(completions=5, parallelism=5)),
    Update(
        "more of one, by index",
        "Job",
        spec(**INDEXED, parallelism=3),
        spec(completions=5),
        ["spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"],
    ),
    Update("placed before it was started", "Job", SUSPENDED, PLACED),
    Update("placed and resumed at once", "Job", SUSPENDED, {"spec": {**PLACED["spec"], "suspend": False}}),
    Update("placed after it was stopped", "Job", SUSPENDED, PLACED, status=STOPPED),
    Update(
        "more active than none",
        "Job",
        {},
        {"status": {"active": -1}},
        ["status.active: Invalid value: -1: must be greater than or equal to 0"],
        subresource="status",
    ),
    Update("another schedule", "CronJob", {}, spec(schedule="@daily")),
    Update(
        "a schedule that had a zone",
        "CronJob",
        {},
        spec(schedule="bad"),
        ['spec.schedule: Invalid value: "bad": expected exactly 5 fields, found 1: [bad]'],
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_an_update_is_validated(case: Update) -> None:
    assert case.validate() == case.problems


FIXED = [
    Update("placed while it runs", "Job", {}, PLACED),
    Update("placed while pods are left", "Job", SUSPENDED, PLACED, status={**STOPPED, "active": 1}),
    Update(
        "another image while suspended",
        "Job",
        SUSPENDED,
        spec(template={"spec": {"containers": [{"name": "c", "image": "j"}]}}),
    ),
]


@pytest.mark.parametrize("case", FIXED, ids=lambda case: case.id)
def test_a_template_is_fixed_if(case: Update) -> None:
    refused = case.validate()
    assert len(refused) == 1
    assert refused[0].startswith("spec.template: Invalid value: ")
    assert refused[0].endswith(": field is immutable")


def test_a_stopped_job_may_be_placed_again_by_a_gate_only() -> None:
    off = replace(ON, mutable_suspended_job_directives=False)
    assert len(Update("", "Job", SUSPENDED, PLACED, status=STOPPED).validate(off)) == 1
    assert Update("", "Job", SUSPENDED, PLACED).validate(off) == []


def test_what_a_job_gets() -> None:
    made = stored("Job")
    uid = made.metadata.uid
    assert (made.spec.completions, made.spec.parallelism, made.spec.backoff_limit) == (1, 1, 6)
    assert (made.spec.completion_mode, made.spec.suspend) == ("NonIndexed", False)
    assert made.spec.pod_replacement_policy == "TerminatingOrFailed"
    assert made.spec.selector.match_labels == {"batch.kubernetes.io/controller-uid": uid}
    assert made.spec.template.metadata.labels == {
        "app": "x",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": uid,
        "job-name": "x",
    }
    assert made.metadata.labels == made.spec.template.metadata.labels  # where the user gives the Job none


def test_what_a_cron_job_gets() -> None:
    made = stored("CronJob").spec
    assert (made.concurrency_policy, made.suspend) == ("Allow", False)
    assert (made.successful_jobs_history_limit, made.failed_jobs_history_limit) == (3, 1)
    assert made.job_template.spec.selector is None


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("* * * * *", None),
        ("*/15 8-18 1,15 jan-mar MON", None),
        ("5/10 ? * * 0-6/2", None),
        ("@hourly", None),
        ("@every 1h30m", None),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
    ],
)
def test_the_syntax_of_schedules(schedule: str, problem: str | None) -> None:
    assert find_schedule_problem(schedule) == problem


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", 0),
        ("0", 1),
        ("0-2,4", 4),
        ("2,1", "non-increasing order, previous: 2, current: 1"),
        ("2-2", "non-increasing order, previous: 2, current: 2"),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("9", 'too large index: "9"'),
    ],
)
def test_lists_of_indexes(text: str, outcome: int | str) -> None:
    assert count_indexes(text, 5) == outcome
