"""Evaluate the CEL validation rules of a schema on every written object.

`ValidationRules` collects the rules when the first object arrives, compiles those of a schema node when its first value
arrives, and evaluates them from the root down within Kubernetes' cost budget. The costs are first taken from static
estimates; only if these exceed the budget, everything is evaluated again with counted costs. Unchanged values are
exempt (ratcheting).
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from mooring.admission.custom.structure import build_child_path
from mooring.admission.custom.validation import find_old_counterpart, is_absent
from mooring.admission.definitions.field_paths import FieldPathError, find_schema_at_path
from mooring.api import field_errors
from mooring.api.apiextensions_v1 import JSONSchemaProps, ValidationRule
from mooring.api.field_errors import OMIT_VALUE, Errors, FieldError
from mooring.api.field_path import Path
from mooring.api.structural import Structural
from mooring.cel.environment import Program
from mooring.cel.errors import CostLimitExceeded, EvaluationError
from mooring.cel.values import NONE, Optional
from mooring.constraints.celenv.schemas import Declared, RuleEnvironments, declare, is_declared, to_value

PER_CALL = 1_000_000
BUDGET = 10_000_000
MAX_MESSAGE_BYTES = 5 * 1024
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
Warn = Callable[[str], None]


class _TooExpensiveError(Exception):
    """Raised when the rules' estimated total cost exceeds the budget: evaluate again and count the actual cost."""


class _StopError(Exception):
    """Raised after an error that ends the evaluation, to skip the object's remaining CEL rules."""


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule of `x-kubernetes-validations` with its compiled expression and message expression."""

    rule: ValidationRule
    program: Program
    message: Program | None
    uses_old_self: bool
    where: str
    """The path, relative to the value, of the field that the rule's errors name; empty for the value itself."""

    @property
    def is_optional(self) -> bool:
        return bool(self.rule.optional_old_self)


def uses_old_self(program: Program) -> bool:
    return any(path[0] == "oldSelf" for path in program.reads)


class _RuleNode(msgspec.Struct):
    """A schema node with its compiled CEL rules and its child nodes; children without any rules are left out."""

    schema: Structural
    is_root: bool
    fields: "dict[str, _RuleNode]"
    element: "_RuleNode | None"
    """The node of a list's items or a map's values."""
    _type_and_rules: "tuple[Declared, tuple[CompiledRule, ...]] | None" = None

    @property
    def type_and_rules(self) -> tuple[Declared, tuple[CompiledRule, ...]]:
        """Return the CEL type of values at this node, and the node's rules; compile them on first use."""
        if self._type_and_rules is None:
            props = self.schema.props
            declared = declare(props, root=self.is_root or props.embedded_resource)
            if declared is None:
                raise TypeError("a schema that `is_declared` has a type")
            self._type_and_rules = declared, tuple(_compile_rules(props, declared))
        return self._type_and_rules


class ValidationRules:
    """The `x-kubernetes-validations` of one version of a custom kind; evaluates them on its objects."""

    def __init__(self, schema: Structural) -> None:
        self._root = _build_rule_node(schema, is_root=True)

    def validate(self, new: Any, old: Any, warn: Warn | None = None, path: Path | None = None) -> Errors:
        """Return an error for each violated rule; on an unchanged value, rules without `oldSelf` only `warn`."""
        if self._root is None:
            return []
        try:
            return _Evaluation(warn, counted=False).run(self._root, new, old, path)
        except _TooExpensiveError:
            return _Evaluation(warn, counted=True).run(self._root, new, old, path)


def _build_rule_node(schema: Structural, *, is_root: bool = False) -> _RuleNode | None:
    if not is_declared(schema.props):
        return None
    found = {name: _build_rule_node(child) for name, child in schema.properties.items()}
    fields = {name: node for name, node in found.items() if node is not None}
    inner = schema.items or schema.additional
    element = _build_rule_node(inner) if inner is not None else None
    return _RuleNode(schema, is_root, fields, element) if schema.props.validations or fields or element else None


def _compile_rules(schema: JSONSchemaProps, declared: Declared) -> Iterator[CompiledRule]:
    environments = RuleEnvironments(declared)
    for rule in schema.validations:
        environment = environments.get(optional_old_self=bool(rule.optional_old_self))
        program = environment.compile(rule.rule)
        message = environment.compile(rule.message_expression) if rule.message_expression else None
        try:
            where = find_schema_at_path(rule.field_path, schema)[0] if rule.field_path else ""
        except FieldPathError:
            where = ""
        yield CompiledRule(rule, program, message, uses_old_self(program), where)


class _Evaluation:
    """One evaluation of a custom object by all CEL rules of its schema, within the cost budget for one object."""

    def __init__(self, warn: Warn | None, *, counted: bool) -> None:
        self._warn = warn
        self._counted = counted
        self._left = BUDGET
        self._errors: Errors = []

    def run(self, root: _RuleNode, new: Any, old: Any, path: Path | None) -> Errors:
        unchanged = path is None and old is not None and new == old  # a default has no old value
        with suppress(_StopError):
            self._visit_value(root, new, old, path, unchanged=unchanged)
        return self._errors

    def _visit_value(self, node: _RuleNode, new: Any, old: Any, path: Path | None, *, unchanged: bool) -> None:
        if new is None:
            return
        if node.schema.props.validations:
            self._evaluate_node(node, new, old, path, unchanged)
        if isinstance(new, list) and node.element is not None:
            for index, item in enumerate(new):
                before = find_old_counterpart(new, old, index, node.schema)
                same = unchanged if is_absent(before) else before == item
                here = path.index(index) if path else Path(f"[{index}]")
                self._visit_value(node.element, item, None if is_absent(before) else before, here, unchanged=same)
        elif isinstance(new, dict):
            for name, item in new.items():
                below = node.fields.get(name) or (node.element if name not in node.schema.properties else None)
                if below is None:
                    continue
                before = old.get(name) if isinstance(old, dict) else None
                same = before == item if isinstance(old, dict) else unchanged
                self._visit_value(below, item, before, build_child_path(path, name, node.schema), unchanged=same)

    def _evaluate_node(self, node: _RuleNode, new: Any, old: Any, path: Path | None, unchanged: bool) -> None:
        shown_type = node.schema.props.type
        if self._left <= 0:
            self._stop_with_error(field_errors.invalid(path, shown_type, _OUT_OF_BUDGET))
        declared, rules = node.type_and_rules
        try:
            value = to_value(new, declared)
            before = None if old is None else to_value(old, declared)
        except EvaluationError as error:
            self._errors.append(field_errors.invalid(path, shown_type, f"{error} evaluating rule"))
            return
        for each in rules:
            if each.uses_old_self and old is None and not each.is_optional:
                continue  # a transition rule without a transition
            bindings = {"self": value, "oldSelf": before}
            if each.is_optional:
                bindings["oldSelf"] = NONE if before is None else Optional.of(before)
            holds = self._evaluate_rule(each, bindings, path, shown_type)
            if holds is False:
                self._report_violation(
                    each, bindings, new, path, shown_type, forgiven=unchanged and not each.uses_old_self
                )

    def _evaluate_rule(
        self, each: CompiledRule, bindings: dict[str, Any], path: Path | None, shown_type: str
    ) -> bool | None:
        text = (each.rule.message or each.rule.rule).strip()
        try:
            return bool(self._evaluate_program(each.program, bindings))
        except CostLimitExceeded as error:
            detail = (
                f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {text}"
            )
            self._stop_with_error(field_errors.invalid(path, shown_type, detail))
        except _OutOfBudgetError:
            self._stop_with_error(field_errors.invalid(path, shown_type, _OUT_OF_BUDGET))
        except EvaluationError as error:
            if str(error).startswith("no such overload"):
                detail = (
                    f"'{error}': call arguments did not match a supported operator, function or macro signature for"
                    f" rule: {text}"
                )
            else:
                detail = f"{error} evaluating rule: {text}"
            self._errors.append(field_errors.invalid(path, shown_type, detail))
        return None

    def _evaluate_program(self, program: Program, bindings: dict[str, Any]) -> Any:
        if not self._counted:
            self._left -= program.max_cost
            if program.max_cost > PER_CALL or self._left < 0:
                raise _TooExpensiveError
            return program.evaluate(bindings)
        value, cost = program.evaluate_counted(bindings, PER_CALL)
        if cost > self._left:
            raise _OutOfBudgetError
        self._left -= cost
        return value

    def _report_violation(
        self,
        each: CompiledRule,
        bindings: dict[str, Any],
        value: Any,
        path: Path | None,
        shown_type: str,
        *,
        forgiven: bool,
    ) -> None:
        here = path
        if each.where:
            here = path.child(each.where) if path else Path(each.where)
        fallback = each.rule.message.strip() if each.rule.message else f"failed rule: {each.rule.rule.strip()}"
        detail = self._evaluate_message(each, bindings, here, shown_type) or fallback
        shown = OMIT_VALUE if shown_type in {"object", "array"} else value
        error = _build_violation_error(each.rule.reason, here, shown, detail)
        if not forgiven:
            self._errors.append(error)
        elif self._warn is not None:
            self._warn(str(error))

    def _evaluate_message(
        self, each: CompiledRule, bindings: dict[str, Any], path: Path | None, shown_type: str
    ) -> str:
        if each.message is None:
            return ""
        try:
            text = self._evaluate_program(each.message, bindings)
        except CostLimitExceeded:
            detail = (
                "no further validation rules will be run due to call cost exceeds limit for messageExpression:"
                f' "{each.rule.message_expression}"'
            )
            self._stop_with_error(field_errors.invalid(path, shown_type, detail))
        except _OutOfBudgetError:
            detail = (
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules"
                " will be run"
            )
            self._stop_with_error(field_errors.invalid(path, shown_type, detail))
        except EvaluationError:
            return ""
        text = text.strip() if isinstance(text, str) else ""
        return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE_BYTES else text

    def _stop_with_error(self, error: FieldError) -> None:
        self._errors.append(error)
        raise _StopError


class _OutOfBudgetError(Exception):
    """Raised when the counted cost of the CEL rules exceeds the budget for one object."""


def _build_violation_error(reason: str | None, path: Path | None, value: Any, detail: str) -> FieldError:
    match reason:
        case "FieldValueForbidden":
            return field_errors.forbidden(path, detail)
        case "FieldValueRequired":
            return field_errors.required(path, detail)
        case "FieldValueDuplicate":
            return field_errors.duplicate(path, value)
    return field_errors.invalid(path, value, detail)
