"""Validate the CEL rules of a schema when a definition is written: their types and maximum costs.

A rule's cost is estimated for the largest value that its schema allows, times the number of such values in an object.
Limits and messages are Kubernetes'. ``custom/rules.py`` evaluates the rules.
"""

from collections.abc import Iterable

import msgspec

from mooring.admission.custom.rules import uses_old_self
from mooring.admission.expressions import find_compile_problem
from mooring.admission.options import CustomOptions
from mooring.api import codec, field_errors
from mooring.api.apiextensions_v1 import JSONSchemaProps, ValidationRule
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.cel.environment import Program
from mooring.constraints.celenv.schemas import MAX_REQUEST_BYTES, RuleEnvironments, declare

MAX_RULE = 10_000_000
MAX_SCHEMA = 100_000_000
_MOST = 2**64 - 1
_SHOWN = 4
_COMPILING, _EACH_CHARACTER = 400, 4
"""The validation budget charged for compiling an expression, in microseconds: fixed, and per character."""
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
    " declared)"
)


def has_validation_rules(nodes: Iterable[JSONSchemaProps]) -> bool:
    return any(node.validations for node in nodes)


class _RulePrograms(msgspec.Struct, frozen=True):
    """CEL environments and programs for a schema node's rules, shared by equal nodes: large schemas repeat subtrees."""

    min_bytes: int
    """The minimum size of a value at the schema node, in bytes."""
    environments: RuleEnvironments
    programs: dict[tuple[str, bool], Program] = msgspec.field(default_factory=dict)
    """Compiled CEL programs, by expression and by whether `oldSelf` is optional."""


class RuleValidator(msgspec.Struct):
    """Validates the CEL rules of one CustomResourceDefinition schema, and adds up their estimated costs."""

    options: CustomOptions
    known: frozenset[str]
    """Expressions of the stored schema, which may use every CEL library of this release."""
    unchanged: bool
    """Whether the update leaves the schema unchanged; then no single rule is rejected for its cost."""
    _total: int = 0
    _expensive: list[tuple[int, Path]] = msgspec.field(default_factory=list)
    _known_nodes: "dict[tuple[bytes, bool], _RulePrograms | None]" = msgspec.field(default_factory=dict)
    """Cached environments and programs of schema nodes, by the node's encoded schema and whether it is the root."""

    def validate_node(
        self, schema: JSONSchemaProps, path: Path, times: int | None, uncorrelated: Path | None, *, root: bool
    ) -> Errors:
        """Return the errors in one schema node's rules: syntax, types, estimated cost. Add the cost to the total.

        An object has at most `times` values at the node (None: unlimited). `uncorrelated` is the enclosing list whose
        items cannot be matched with old ones: rules below it must not read `oldSelf`.
        """
        place = path.child("x-kubernetes-validations")
        shared = self._get_rule_programs(schema, root=root or schema.embedded_resource)
        if shared is None:
            detail = (
                "internal error: failed to construct type information for x-kubernetes-validations rules: unable to"
                " convert structural schema to CEL declarations"
            )
            return [field_errors.internal(place, detail)]
        if times is None:
            times = MAX_REQUEST_BYTES // (shared.min_bytes + 1)
        found: Errors = []
        for index, rule in enumerate(schema.validations):
            found += self._validate_rule(rule, place.index(index), shared, times, uncorrelated)
        return found

    def _get_rule_programs(self, schema: JSONSchemaProps, *, root: bool) -> "_RulePrograms | None":
        key = (codec.encode(schema), root)
        if key not in self._known_nodes:
            declared = declare(schema, root=root)
            made = _RulePrograms(declared.min_bytes, RuleEnvironments(declared)) if declared else None
            self._known_nodes[key] = made
        return self._known_nodes[key]

    def _validate_rule(
        self, rule: ValidationRule, path: Path, shared: _RulePrograms, times: int, uncorrelated: Path | None
    ) -> Errors:
        program = self._compile(rule.rule, shared, rule, path)
        if problem := _find_program_problem(
            program, "bool", "compilation failed: ", "cel expression must evaluate to a bool"
        ):
            return [field_errors.invalid(path.child("rule"), rule, problem)]
        errors = self._add_cost(path.child("rule"), min(program.max_cost * times, _MOST), "estimated rule cost")
        if rule.message_expression:
            errors += self._validate_message(rule, path.child("messageExpression"), shared)
        if uses_old_self(program):
            if uncorrelated is not None:
                detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                errors.append(field_errors.invalid(path.child("rule"), rule.rule, detail))
        elif rule.optional_old_self is not None:
            detail = "may not be set if oldSelf is not used in rule"
            errors.append(field_errors.invalid(path.child("optionalOldSelf"), rule.optional_old_self, detail))
        return errors

    def _validate_message(self, rule: ValidationRule, path: Path, shared: _RulePrograms) -> Errors:
        program = self._compile(rule.message_expression, shared, rule, path)
        begin, wrong_type = "messageExpression compilation failed: ", "messageExpression must evaluate to a string"
        if problem := _find_program_problem(program, "string", begin, wrong_type):
            return [field_errors.invalid(path, rule, problem)]
        return self._add_cost(path, program.max_cost, "estimated messageExpression cost")

    def _compile(self, text: str, shared: _RulePrograms, rule: ValidationRule, path: Path) -> Program:
        optional = bool(rule.optional_old_self)
        program = shared.programs.get((text, optional))
        if program is None:
            field_errors.spend(_COMPILING + _EACH_CHARACTER * len(text), path)
            base = None if text in self.known else self.options.new_rules()
            program = shared.environments.get(base, optional_old_self=optional).compile(text)
            shared.programs[text, optional] = program
        return program

    def _add_cost(self, path: Path, cost: int, name: str) -> Errors:
        self._total = min(self._total + cost, _MOST)
        if cost >= MAX_SCHEMA // 100:
            self._expensive = sorted([*self._expensive, (cost, path)], key=lambda each: -each[0])[:_SHOWN]
        if self.unchanged or cost <= MAX_RULE:
            return []
        return [field_errors.forbidden(path, _format_cost_excess(name, cost, MAX_RULE))]

    def validate_total_cost(self, path: Path) -> Errors:
        """Return errors if the estimated costs of all rules, added up, exceed the limit for one schema; else none."""
        if self._total <= MAX_SCHEMA:
            return []
        detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors = [field_errors.forbidden(place, detail) for _, place in self._expensive]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [*errors, field_errors.forbidden(path, _format_cost_excess(name, self._total, MAX_SCHEMA))]


def _find_program_problem(program: Program, wanted: str, begin: str, wrong_type: str) -> str:
    if program.issues:
        return find_compile_problem(program, begin)
    return "" if str(program.output_type) == wanted else wrong_type


def _format_cost_excess(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    if factor > 100:
        shown = "more than 100x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"
