"""Advice about a single CEL expression: whether it can be true, and which fields it reads without a guard.

The server checks syntax, types and costs (``server.py``); an expression that does not compile gets no advice. Results
are cached by the text of the expression. Called by ``advice.py`` and ``terms.py``.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

from mooring.advisor.lint import guards, rules
from mooring.advisor.lint.rules import Problem
from mooring.advisor.lint.small_models import Inputs, Model, Slot, TruthFrequency
from mooring.cel.environment import Program
from mooring.cel.errors import CelError
from mooring.cel.values import Timestamp
from mooring.constraints.celenv import NODE, TAINT

Subject = Literal["taint", "node"]
_ENVIRONMENTS = {"taint": TAINT, "node": NODE}
_REMEMBERED = 2048


@lru_cache(maxsize=_REMEMBERED)
def compile_expression(subject: Subject, expression: str) -> Program | None:
    """Compile a stored expression; None if it does not compile."""
    program = _ENVIRONMENTS[subject].stored_expressions().compile(expression)
    return None if program.issues else program


@lru_cache(maxsize=_REMEMBERED)
def model_of_compared_values(subject: Subject, expression: str) -> Model | None:
    """Return what an expression compares labels or taint fields with; None if it does not compile or is too complex."""
    program, model = compile_expression(subject, expression), Model()
    if program is None or program.expr is None or not model.add_expression(program.expr):
        return None
    return model


def build_evaluator(subject: Subject, expression: str) -> Callable[[Inputs], bool]:
    """Return a function that evaluates a CEL expression for given input values."""
    program = compile_expression(subject, expression)

    def is_true(inputs: Inputs) -> bool:
        try:
            return program is not None and program.evaluate(_cel_bindings(subject, inputs)) is True
        except CelError:
            return False

    return is_true


def _cel_bindings(subject: Subject, inputs: Inputs) -> Mapping[str, Any]:
    if subject == "node":
        return {"node": {"labels": {slot.name: value for slot, value in inputs.items()}}}
    taint: dict[str, Any] = {"key": "key", "value": "", "effect": "NoSchedule"}
    taint |= {slot.name: value for slot, value in inputs.items()}
    if Slot(of_taint=True, name="timeAdded") in inputs:
        taint["timeAdded"] = Timestamp(0)
    return {"taint": taint}


@lru_cache(maxsize=_REMEMBERED)
def truth_frequency(subject: Subject, expression: str) -> TruthFrequency:
    """Return whether a CEL expression is true for all, some or none of the nodes or taints that could exist."""
    model = model_of_compared_values(subject, expression)
    return TruthFrequency.UNKNOWN if model is None else model.truth_frequency(build_evaluator(subject, expression))


def never_matches(expression: str) -> bool:
    """Return whether a CEL expression over a node is proven false for every possible node; False if unknown."""
    return truth_frequency("node", expression) is TruthFrequency.NEVER


@lru_cache(maxsize=_REMEMBERED)
def advise_on_expression(subject: Subject, expression: str) -> tuple[Problem, ...]:
    """Return the problems of a CEL expression: never or always true, or unguarded reads. They have no path."""
    program = compile_expression(subject, expression)
    if program is None or program.expr is None:
        return ()
    problems = []
    match truth_frequency(subject, expression):
        case TruthFrequency.NEVER:
            message = f"the expression is true for no {subject}, so it never matches"
            problems.append(Problem(rules.NEVER_MATCHES, "", message))
        case TruthFrequency.ALWAYS:
            effect = "every taint is tolerated" if subject == "taint" else "no node is excluded"
            problems.append(Problem(rules.MATCHES_ALL, "", f"the expression is true for every {subject}: {effect}"))
    problems += [Problem(rules.UNGUARDED, "", _describe_read(read)) for read in guards.find_unguarded(program.expr)]
    return tuple(problems)


def _describe_read(read: guards.Access) -> str:
    if read.path == ("taint",):
        return f"{read} is read without a guard and fails on taints without it; write has({read}) && …"
    labels = ".".join(read.path)
    return (
        f"{read} is read without a guard and fails on nodes without the label; "
        f"write '{read.key}' in {labels} && …, or {labels}[?'{read.key}'].orValue('')"
    )
