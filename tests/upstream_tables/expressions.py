"""Tables of the CEL libraries in k8s.io/apiserver: values, errors, estimated costs and costs at run time."""

import re
from functools import cache

from mooring.api.authentication_v1 import UserInfo
from mooring.cel import EvaluationError
from mooring.cel.environment import Environment
from mooring.cel.ext.comprehensions import TWO_VARIABLES
from mooring.cel.ext.network import cidr_library, ip_library
from mooring.cel.ext.optionals import OPTIONALS
from mooring.cel.ext.sets import SETS
from mooring.cel.ext.strings import strings
from mooring.cel.standard import STANDARD
from mooring.constraints.celenv.admission import admission_environment
from mooring.constraints.celenv.authorizer import AuthorizerValue, deny_all
from mooring.constraints.celenv.format import FORMAT_LIBRARY
from mooring.constraints.celenv.lists import lists_library
from mooring.constraints.celenv.quantity import QUANTITY_LIBRARY
from mooring.constraints.celenv.regex import REGEX_LIBRARY
from mooring.constraints.celenv.semver import SEMVER_LIBRARY
from mooring.constraints.celenv.url import URL_LIBRARY
from upstream_tables.case import Play, Tree, difference

_LIBRARIES = (
    STANDARD,
    strings(2),
    URL_LIBRARY,
    REGEX_LIBRARY,
    lists_library(1),
    QUANTITY_LIBRARY,
    SETS,
    ip_library(unmap=False),
    cidr_library(unmap=False),
    FORMAT_LIBRARY,
    OPTIONALS,
    TWO_VARIABLES,
    SEMVER_LIBRARY,
)
_UNBOUNDED = 2**60


@cache
def _environment(*, cross_type_numeric: bool) -> Environment:
    return Environment(libraries=_LIBRARIES, optional_syntax=True, has_cost=0, cross_type_numeric=cross_type_numeric)


def _cost(case: Tree) -> str | None:
    is_admission = "authorizer" in case["expr"] or "jsonpatch" in case["expr"]
    environment = admission_environment(None, patches=True) if is_admission else _environment(cross_type_numeric=False)
    program = environment.compile(case["expr"])
    if program.issues:
        return f"does not compile: {program.issues[0].message}"
    _, counted = program.evaluate_counted({"authorizer": AuthorizerValue(UserInfo(username="u"), deny_all)})
    ours = (program.min_cost, program.max_cost, counted)
    upstream = (case["min"], case["max"], case["runtime"])
    if ours == upstream:
        return None
    text = f"estimate {ours[0]}..{ours[1]} counted {ours[2]}, upstream {upstream[0]}..{upstream[1]} {upstream[2]}"
    if ours[0] == upstream[0] and ours[2] <= upstream[2]:
        if ours[1] == upstream[1]:
            return f"cheaper at run time: {text}"
        if ours[1] > _UNBOUNDED:
            return f"unbounded estimate: {text}"
    return text


def _value(case: Tree) -> str | None:
    program = _environment(cross_type_numeric=True).compile(case["expr"])
    if program.issues:
        text = " ".join(issue.message for issue in program.issues)
        if not case["compile"]:
            return f"does not compile: {text}"
        matches = all(pattern in text or re.search(pattern, text) for pattern in case["compile"])
        return None if matches else f"compile error {text!r}, upstream {case['compile']}"
    if case["compile"]:
        return f"compiles, upstream {case['compile']}"
    try:
        value = program.evaluate({})
    except EvaluationError as error:
        if not case["runtime"]:
            return f"error {error.message!r}, upstream a value"
        is_same = case["runtime"] in error.message or re.search(case["runtime"], error.message)
        return None if is_same else f"worded {error.message!r}, upstream {case['runtime']!r}"
    if case["runtime"]:
        return f"{value!r}, upstream the error {case['runtime']!r}"
    wanted = case["value"]
    if case["opaque"] or wanted is None or wanted["type"] == "list":
        return None
    if wanted["type"] == "optional":
        is_empty = "none" in repr(value).lower()
        return difference(is_empty, wanted["value"] is None)
    return difference(value, wanted["value"])


TABLES: dict[str, Play] = {"cel.costs": _cost, "cel.values": _value}
