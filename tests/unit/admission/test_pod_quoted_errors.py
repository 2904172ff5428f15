"""Every error text that the proposals quote, produced exactly or as a settled question words it.

A row is a quote: the proposal's section, what is sent, and what the server answers. The events and log lines that they
quote are in ``tests/unit/scheduler/test_quoted_messages.py``.
"""

from dataclasses import dataclass

import pytest

from admission_pods import (
    OFF,
    ON,
    REQUIRED,
    Tree,
    create_problems,
    created,
    pod_of,
    preferred,
    required,
    requirement,
    toleration,
    update_problems,
)
from mooring.admission.options import AdmissionOptions
from mooring.api.core_v1 import PersistentVolume
from mooring.testing.builders import made

TERM = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"
LONG = "true" + " " * 10240


@dataclass(frozen=True)
class Quote:
    section: str
    spec: Tree
    answer: list[str]
    options: AdmissionOptions = ON
    settled: str = ""
    """The settled question because of which the answer is not the quote."""


QUOTES = [
    Quote(
        "KEP-5471 Controller Hot-Loop: Unsupported value: Gt",
        toleration(key="sla", operator="Gt", value="950"),
        ['spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'],
        OFF,
    ),
    Quote(
        "KEP-5471 rollback, new pod creation: Unsupported value: Lt",
        toleration(key="sla", operator="Lt", value="950"),
        ['spec.tolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists"'],
        OFF,
    ),
    Quote(
        "KEP-5471 API Validation: numeric operators require TaintTolerationComparisonOperators feature gate",
        toleration(key="sla", operator="Gt", value="x"),
        ['spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'],
        OFF,
        settled="5",
    ),
    Quote(
        "KEP-5471 API Validation: value must be a valid integer for numeric operators",
        toleration(key="sla", operator="Gt", value="95.5"),
        [
            'spec.tolerations[0].value: Invalid value: "95.5": must be a valid decimal integer in canonical form',
            'spec.tolerations[0].value: Invalid value: "95.5": strconv.ParseInt: parsing "95.5": invalid syntax',
        ],
        settled="2",
    ),
    Quote(
        "KEP-5471 API Validation: leading zeros are not allowed in numeric values",
        toleration(key="sla", operator="Gt", value="0950"),
        ['spec.tolerations[0].value: Invalid value: "0950": must be a valid decimal integer in canonical form'],
        settled="2",
    ),
    Quote(
        "KEP-5721 Invalid SemVer, tolerations: Invalid character(s) found in major number",
        toleration(key="runtime", operator="SemverGt", value="containerd://2.1.4"),
        [
            (
                'spec.tolerations[0].value: Invalid value: "containerd://2.1.4": '
                'Invalid character(s) found in major number "containerd://2"'
            )
        ],
        settled="18",
    ),
    Quote(
        "KEP-5721 Invalid SemVer, node affinity: Invalid character(s) found in patch number",
        required(**requirement("SemverGt", "v1.2.x")),
        [
            (
                f'{TERM}.matchExpressions[0].values[0]: Invalid value: "v1.2.x": '
                'Invalid character(s) found in patch number "x"'
            )
        ],
    ),
    Quote(
        "KEP-5721 Controller Hot-Loop: Unsupported value: SemverLt",
        toleration(key="cni", operator="SemverLt", value="1.2.3"),
        ['spec.tolerations[0].operator: Unsupported value: "SemverLt": supported values: "Equal", "Exists"'],
        OFF,
    ),
    Quote(
        "KEP-5721 rollback, tolerations: Unsupported value: SemverGt",
        toleration(key="cni", operator="SemverGt", value="1.2.3"),
        ['spec.tolerations[0].operator: Unsupported value: "SemverGt": supported values: "Equal", "Exists"'],
        OFF,
    ),
    Quote(
        "KEP-5721 rollback, affinity: not a valid selector operator",
        required(**requirement("SemverEq", "1.2.3")),
        [f'{TERM}.matchExpressions[0].operator: Invalid value: "SemverEq": not a valid selector operator'],
        OFF,
    ),
    Quote(
        "KEP-5500 CEL Expression Evaluation Errors: type mismatch: expected bool, got int",
        required(matchCELExpressions=["node.labels['foo'] > 5"]),
        [
            (
                f"{TERM}.matchCELExpressions[0]: Invalid value: \"node.labels['foo'] > 5\": compilation failed: "
                "ERROR: <input>:1:20: found no matching overload for '_>_' applied to '(string, int)'\n"
                " | node.labels['foo'] > 5\n | ...................^"
            )
        ],
        settled="18",
    ),
    Quote(
        "KEP-5500 Validate Toleration CEL Expression: require feature gate",
        toleration(expression="true"),
        [
            (
                "spec.tolerations[0].expression: Forbidden: "
                "toleration CEL expressions require feature gate TaintTolerationNodeAffinityCEL"
            )
        ],
        OFF,
    ),
    Quote(
        "KEP-5500 Validate Toleration CEL Expression: cannot be used with key, value, operator, or effect",
        toleration(expression="true", key="a"),
        [
            (
                'spec.tolerations[0].expression: Invalid value: "true": '
                "expression cannot be used with key, value, operator, or effect fields"
            )
        ],
    ),
    Quote(
        "KEP-5500 Validate Toleration CEL Expression: TooLong",
        toleration(expression=LONG),
        ["spec.tolerations[0].expression: Too long: may not be more than 10240 bytes"],
    ),
    Quote(
        "KEP-5500 Validate Toleration CEL Expression: too complex",
        toleration(expression="taint.key.split('').all(a, taint.key.split('').all(b, taint.key.contains(a + b)))"),
        ["spec.tolerations[0].expression: Forbidden: too complex, exceeds cost limit"],
    ),
    Quote(
        "KEP-5500 Validate Node Affinity CEL Expression: require feature gate",
        required(matchCELExpressions=["true"]),
        [
            (
                f"{TERM}.matchCELExpressions[0]: Forbidden: "
                "Node Affinity CEL expressions require feature gate TaintTolerationNodeAffinityCEL"
            )
        ],
        OFF,
        settled="11",
    ),
    Quote(
        "KEP-5500 Validate Node Affinity CEL Expression: TooLong",
        required(matchCELExpressions=["true", LONG]),
        [f"{TERM}.matchCELExpressions[1]: Too long: may not be more than 10240 bytes"],
        settled="11",
    ),
    Quote(
        "KEP-5500 Validate Node Affinity CEL Expression: too complex",
        required(matchCELExpressions=["node.labels.all(a, node.labels.all(b, node.labels.all(c, a + b != c)))"]),
        [f"{TERM}.matchCELExpressions[0]: Forbidden: too complex, exceeds cost limit"],
        settled="11",
    ),
    Quote(
        "KEP-5500 CEL Expression Compilation: compilation failed",
        toleration(expression="taint.key =="),
        [
            (
                'spec.tolerations[0].expression: Invalid value: "taint.key ==": compilation failed: '
                "ERROR: <input>:1:13: Syntax error: mismatched input '<EOF>' expecting "
                "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
                "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | taint.key ==\n | ............^"
            )
        ],
    ),
    Quote(
        "KEP-5500 CEL Expression Compilation: must evaluate to bool or the unknown type",
        toleration(expression="taint.key"),
        [
            (
                'spec.tolerations[0].expression: Invalid value: "taint.key": '
                "must evaluate to bool or the unknown type, not string"
            )
        ],
    ),
    Quote(
        "KEP-5500 CEL Expression Compilation: program instantiation failed",
        preferred(matchCELExpressions=["bool('yes')"]),
        [
            (
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
                "matchCELExpressions[0]: Internal error: program instantiation failed: "
                "type conversion error from 'string' to 'bool'"
            )
        ],
    ),
]


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: quote.section)
@pytest.mark.req("5471.2", "5471.3a", "5721.5", "5721.6", "5500.3", "5500.9")
def test_a_quoted_text_is_what_the_server_answers(quote: Quote) -> None:
    assert create_problems(pod_of(quote.spec), quote.options) == quote.answer


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(toleration(key="sla", operator="Gt", value="950"), id="KEP-5471 rollback, pod updates"),
        pytest.param(toleration(key="cni", operator="SemverGt", value="1.2.3"), id="KEP-5721 rollback, pod updates"),
    ],
)
@pytest.mark.req("5471.3b", "5721.6")
def test_updates_of_pods_that_use_an_operator_already_are_not_refused_as_settled_in_question_3(spec: Tree) -> None:
    old = created(pod_of(spec))
    new = pod_of({**spec, "nodeName": old.spec.node_name}, {"resourceVersion": "1", "labels": {"more": "yes"}})
    assert update_problems(new, old, OFF) == []


@pytest.mark.req("5500.1", "5721.3")
def test_kep_5500_validate_volume_node_affinity_must_specify_required_node_constraints() -> None:
    spec = {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}
    tree = {"metadata": {"name": "v"}, "spec": {**spec, "nodeAffinity": {}}}
    assert create_problems(made(PersistentVolume, tree)) == [
        "spec.nodeAffinity.required: Required value: must specify required node constraints"
    ]


def test_every_deviation_from_a_quote_names_a_settled_question() -> None:
    assert {quote.settled for quote in QUOTES} == {"", "2", "5", "11", "18"}
