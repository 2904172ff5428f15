"""Default and validate policies and bindings, with Kubernetes' messages.

New expressions are compiled at the minimum compatibility version, unchanged ones with every library of this release.
``validating.py`` and ``mutating.py`` evaluate policies.
"""

import re
from collections.abc import Collection, Sequence
from typing import TypeVar

from mooring.admission import checks
from mooring.admission.options import PolicyEnvironment, stored_policies
from mooring.admission.policy import rules
from mooring.admission.policy.compiling import compile_expression
from mooring.admission.strategy import Request, Strategy
from mooring.api import admissionregistration_v1 as v1
from mooring.api import field_errors, label_selector, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.cel.environment import Environment
from mooring.cel.types import DYN, Kind, Type

P = TypeVar("P", v1.ValidatingAdmissionPolicy, v1.MutatingAdmissionPolicy)
B = TypeVar("B", v1.ValidatingAdmissionPolicyBinding, v1.MutatingAdmissionPolicyBinding)
_SPEC = Path("spec")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_CHANGING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_PATCH_TYPES = (v1.APPLY_CONFIGURATION, v1.JSON_PATCH)
_MAX_ANNOTATIONS = 20
_MAX_VALUE_EXPRESSION = 5 * 1024
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_RESERVED_WORDS = (
    "true false null in as break const continue else for function if import let loop package namespace return var"
)
_RESERVED = frozenset({*_RESERVED_WORDS.split(), "void", "while"})
_DECLARABLE = frozenset({"bool", "bytes", "double", "duration", "int", "null", "string", "timestamp", "uint"})
_NONE_AT_ALL = "validations or auditAnnotations must contain at least one item"


class _PolicyCompiler:
    """Compiles the CEL expressions of a policy that is being written, with the composed variables declared so far."""

    def __init__(self, new: PolicyEnvironment, *, params: bool, variables: bool, known: Collection[str]) -> None:
        self._makers = {False: new, True: stored_policies}
        self._params = params
        self._known = known
        self._variables: dict[str, Type] | None = {} if variables else None

    def environment(self, text: str, *, authorizer: bool = True, patches: bool = False) -> Environment:
        maker = self._makers[text in self._known]
        made = maker(params=self._params, authorizer=authorizer, patches=patches)
        if self._variables is None:
            return made
        from mooring.constraints.celenv.admission import with_variables  # noqa: PLC0415 - as the environments

        return with_variables(made, self._variables, text)

    def condition_environment(self, *, stored: bool) -> Environment:
        """Return the CEL environment of match conditions, which cannot use composed variables."""
        return self._makers[stored](params=self._params)

    def declare_variable(self, name: str, found: Type) -> None:
        if self._variables is not None:
            self._variables[name] = found

    def validate_expression(self, text: str, path: Path, results: Sequence[str], **environment: bool) -> Errors:
        return rules.validate_expression(self.environment(text, **environment), text, path, results)


class _PolicyStrategy(Strategy[P]):
    allow_unconditional_update = False

    def default(self, obj: P) -> None:
        obj.spec.failure_policy = obj.spec.failure_policy or "Fail"
        if obj.spec.match_constraints is not None:
            rules.default_match_resources(obj.spec.match_constraints)


class _BindingStrategy(Strategy[B]):
    allow_unconditional_update = False

    def default(self, obj: B) -> None:
        if obj.spec.match_resources is not None:
            rules.default_match_resources(obj.spec.match_resources)


class ValidatingAdmissionPolicyStrategy(_PolicyStrategy[v1.ValidatingAdmissionPolicy]):
    def validate(
        self, obj: v1.ValidatingAdmissionPolicy, old: v1.ValidatingAdmissionPolicy | None, request: Request
    ) -> Errors:
        spec, known = obj.spec, set[str]()
        if old is not None:
            known |= {text for each in old.spec.validations for text in (each.expression, each.message_expression)}
            known |= {each.value_expression for each in old.spec.audit_annotations}
        compiler = _PolicyCompiler(
            request.options.new_policies,
            params=spec.param_kind is not None,
            variables=bool(spec.variables),
            known=known,
        )
        errors = rules.require_choice(spec.failure_policy, rules.FAILURE_POLICIES, _SPEC.child("failurePolicy"))
        errors += _validate_param_kind(spec.param_kind)
        errors += _validate_match_constraints(spec.match_constraints)
        errors += _validate_match_conditions(obj, old, compiler)
        errors += _validate_variables(spec.variables, compiler)
        if not spec.validations and not spec.audit_annotations:
            errors.append(field_errors.required(_SPEC.child("validations"), _NONE_AT_ALL))
            errors.append(field_errors.required(_SPEC.child("auditAnnotations"), _NONE_AT_ALL))
        errors += checks.validate_items(spec.validations, _SPEC.child("validations"), _validate_validation, compiler)
        return errors + _validate_audit_annotations(obj, compiler)

    def validate_status(
        self, new: v1.ValidatingAdmissionPolicy, old: v1.ValidatingAdmissionPolicy, request: Request
    ) -> Errors:
        errors: Errors = []
        path, checking = Path("status"), new.status.type_checking
        for index, warning in enumerate(checking.expression_warnings if checking else ()):
            here = path.child("typeChecking", "expressionWarnings").index(index)
            for name, value in (("warning", warning.warning), ("fieldRef", warning.field_ref.strip())):
                errors += checks.require(value, here.child(name))
        return errors + checks.validate_conditions(new.status.conditions, path.child("conditions"))


class MutatingAdmissionPolicyStrategy(_PolicyStrategy[v1.MutatingAdmissionPolicy]):
    def validate(
        self, obj: v1.MutatingAdmissionPolicy, old: v1.MutatingAdmissionPolicy | None, request: Request
    ) -> Errors:
        spec = obj.spec
        before = [] if old is None else old.spec.mutations
        patches = [each.apply_configuration or each.json_patch for each in before]
        known = {patch.expression for patch in patches if patch is not None}
        params = spec.param_kind is not None
        compiler = _PolicyCompiler(request.options.new_policies, params=params, variables=True, known=known)
        errors = rules.require_choice(spec.failure_policy, rules.FAILURE_POLICIES, _SPEC.child("failurePolicy"))
        errors += _validate_param_kind(spec.param_kind)
        errors += _validate_match_constraints(spec.match_constraints)
        errors += _validate_changing_operations(spec.match_constraints, _SPEC.child("matchConstraints"))
        errors += _validate_match_conditions(obj, old, compiler)
        errors += _validate_variables(spec.variables, compiler)
        errors += checks.require(spec.mutations, _SPEC.child("mutations"), "mutations must contain at least one item")
        errors += checks.validate_items(spec.mutations, _SPEC.child("mutations"), _validate_mutation, compiler)
        return errors + rules.require_choice(
            spec.reinvocation_policy or None, (v1.IF_NEEDED, v1.NEVER), _SPEC.child("reinvocationPolicy")
        )


class ValidatingAdmissionPolicyBindingStrategy(_BindingStrategy[v1.ValidatingAdmissionPolicyBinding]):
    def validate(
        self,
        obj: v1.ValidatingAdmissionPolicyBinding,
        old: v1.ValidatingAdmissionPolicyBinding | None,
        request: Request,
    ) -> Errors:
        spec = obj.spec
        errors = _validate_policy_binding(spec.policy_name, spec.param_ref, spec.match_resources)
        return errors + _validate_validation_actions(spec.validation_actions, _SPEC.child("validationActions"))


class MutatingAdmissionPolicyBindingStrategy(_BindingStrategy[v1.MutatingAdmissionPolicyBinding]):
    def validate(
        self, obj: v1.MutatingAdmissionPolicyBinding, old: v1.MutatingAdmissionPolicyBinding | None, request: Request
    ) -> Errors:
        spec = obj.spec
        errors = _validate_policy_binding(spec.policy_name, spec.param_ref, spec.match_resources)
        return errors + _validate_changing_operations(spec.match_resources, _SPEC.child("matchResources"))


def _validate_param_kind(kind: v1.ParamKind | None) -> Errors:
    if kind is None:
        return []
    errors: Errors = []
    here = _SPEC.child("paramKind", "apiVersion")
    group, slash, version = kind.api_version.rpartition("/")
    if not kind.api_version:
        errors.append(field_errors.required(here))
    elif "/" in group:
        detail = f"unexpected GroupVersion string: {kind.api_version}"
        errors.append(field_errors.invalid(here, kind.api_version, detail))
    else:
        if slash and group and (wrong := names.dns1123_subdomain(group)):
            errors.append(field_errors.invalid(here, group, ",".join(wrong)))
        if not version:
            errors.append(field_errors.invalid(here, kind.api_version, "version must be specified"))
        elif wrong := names.dns1035_label(version):
            errors.append(field_errors.invalid(here, version, ",".join(wrong)))
    here = _SPEC.child("paramKind", "kind")
    if not kind.kind:
        errors.append(field_errors.required(here))
    elif wrong := names.dns1035_label(kind.kind.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
        errors.append(field_errors.invalid(here, kind.kind, detail))
    return errors


def _validate_match_constraints(match: v1.MatchResources | None) -> Errors:
    here = _SPEC.child("matchConstraints")
    if match is None:
        return [field_errors.required(here)]
    errors = rules.validate_match_resources(match, here)
    return errors if match.resource_rules else [*errors, field_errors.required(here.child("resourceRules"))]


def _validate_changing_operations(match: v1.MatchResources | None, path: Path) -> Errors:
    here = path.child("resourceRules", "operations")
    operations = [each for rule in match.resource_rules for each in rule.operations] if match else []
    return [
        field_errors.not_supported(here, each, _CHANGING_OPERATIONS)
        for each in operations
        if each not in _CHANGING_OPERATIONS
    ]


Policy = v1.ValidatingAdmissionPolicy | v1.MutatingAdmissionPolicy


def _validate_match_conditions(obj: Policy, old: Policy | None, compiler: _PolicyCompiler) -> Errors:
    spec = obj.spec
    known: set[str] = set()
    if old is not None:
        if old.spec.param_kind == spec.param_kind and old.spec.match_conditions == spec.match_conditions:
            return []
        known = {each.expression for each in old.spec.match_conditions}
    here = _SPEC.child("matchConditions")
    return rules.validate_match_conditions(
        spec.match_conditions,
        here,
        lambda: compiler.condition_environment(stored=False),
        lambda: compiler.condition_environment(stored=True),
        known,
    )


def _validate_variables(variables: Sequence[v1.Variable], compiler: _PolicyCompiler) -> Errors:
    errors: Errors = []
    for index, each in enumerate(variables):
        here = _SPEC.child("variables").index(index)
        if not each.name.strip():
            errors.append(field_errors.required(here.child("name"), "name is not specified"))
        elif not _IDENTIFIER.fullmatch(each.name) or each.name in _RESERVED:
            errors.append(field_errors.invalid(here.child("name"), each.name, "must be a valid CEL identifier"))
        text, at = each.expression, here.child("expression")
        if not text.strip():
            errors.append(field_errors.required(at, "expression is not specified"))
            continue
        environment = compiler.environment(text)
        errors += rules.validate_expression(environment, text, at, ())
        found = compile_expression(environment, text)
        compiler.declare_variable(each.name, to_declarable_type(found.program.output_type) if not found.error else DYN)
    return errors


def to_declarable_type(found: Type) -> Type:
    """Return the CEL type of a composed variable, by its expression's type; dyn where Kubernetes has no declaration."""
    if found.name in _DECLARABLE:
        return found
    if found.kind in (Kind.LIST, Kind.MAP):
        return Type(found.kind, found.name, tuple(to_declarable_type(each) for each in found.params))
    return DYN


def _validate_validation(each: v1.Validation, path: Path, compiler: _PolicyCompiler) -> Errors:
    errors: Errors = []
    if not each.expression.strip():
        errors.append(field_errors.required(path.child("expression"), "expression is not specified"))
    else:
        errors += compiler.validate_expression(each.expression, path.child("expression"), ("bool",))
    here = path.child("messageExpression")
    if each.message_expression and not each.message_expression.strip():
        errors.append(field_errors.invalid(here, each.message_expression, "must be non-empty if specified"))
    elif each.message_expression:
        errors += compiler.validate_expression(each.message_expression, here, ("string",), authorizer=False)
    here, message = path.child("message"), each.message.strip()
    if each.message and not message:
        errors.append(field_errors.invalid(here, each.message, "must be non-empty if specified"))
    elif "\n" in message or "\r" in message:
        errors.append(field_errors.invalid(here, each.message, "must not contain line breaks"))
    return errors + checks.optional_one_of(each.reason, _REASONS, path.child("reason"))


def _validate_audit_annotations(obj: v1.ValidatingAdmissionPolicy, compiler: _PolicyCompiler) -> Errors:
    annotations, path = obj.spec.audit_annotations, _SPEC.child("auditAnnotations")
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        return [field_errors.invalid(path, annotations, detail)]  # rejected before compiling thousands of them
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, each in enumerate(annotations):
        here = path.index(index)
        if obj.metadata.name:
            full = f"{obj.metadata.name}/{each.key}"
            errors += names.validate(here.child("key"), full, names.label_key(full))
        else:
            errors.append(field_errors.invalid(here.child("key"), each.key, "requires metadata.name be non-empty"))
        text, at = each.value_expression.strip(), here.child("valueExpression")
        if not text:
            errors.append(field_errors.required(at, "valueExpression is not specified"))
        elif len(text.encode(errors="surrogatepass")) > _MAX_VALUE_EXPRESSION:
            errors.append(field_errors.required(at, f"must not exceed {_MAX_VALUE_EXPRESSION} bytes in length"))
        else:
            environment = compiler.environment(each.value_expression)
            errors += rules.validate_expression(
                environment, text, at, ("string", "null"), shown_value=each.value_expression
            )
        errors += seen.add(each.key, here.child("key"))
    return errors


def _validate_mutation(each: v1.Mutation, path: Path, compiler: _PolicyCompiler) -> Errors:
    ways = {
        v1.APPLY_CONFIGURATION: ("applyConfiguration", each.apply_configuration, "Object"),
        v1.JSON_PATCH: ("jsonPatch", each.json_patch, "list(JSONPatch)"),
    }
    if not each.patch_type:
        return [field_errors.required(path.child("patchType"))]
    if each.patch_type not in ways:
        return [field_errors.not_supported(path.child("patchType"), each.patch_type, _PATCH_TYPES)]
    name, patch, result = ways.pop(each.patch_type)
    errors: Errors = []
    if patch is None:
        errors.append(field_errors.required(path.child(name), f"must be specified when patchType is {each.patch_type}"))
    elif not (text := patch.expression.strip()):
        errors.append(field_errors.required(path.child(name, "expression")))
    else:
        environment = compiler.environment(patch.expression, patches=True)
        errors += rules.validate_expression(environment, text, path.child(name, "expression"), (result,))
    ((other, unwanted, _),) = ways.values()
    detail = f"must not be specified when patchType is {each.patch_type}"
    errors += checks.invalid_if(unwanted is not None, path.child(other), f"{{{other}}}", detail)
    return errors


def _validate_policy_binding(
    policy_name: str, param_ref: v1.ParamRef | None, match: v1.MatchResources | None
) -> Errors:
    errors = checks.require_name(policy_name, _SPEC.child("policyName"), names.dns1123_subdomain)
    errors += checks.optional(param_ref, _SPEC.child("paramRef"), _validate_param_ref)
    return errors if match is None else errors + rules.validate_match_resources(match, _SPEC.child("matchResources"))


def _validate_param_ref(ref: v1.ParamRef, path: Path) -> Errors:
    errors: Errors = []
    both = "name and selector are mutually exclusive"
    if ref.name:
        errors += names.validate(path.child("name"), ref.name, names.path_segment_name(ref.name))
        errors += checks.forbidden_if(ref.selector is not None, path.child("name"), both)
    if ref.selector is not None:
        errors += label_selector.validate(ref.selector, path.child("selector"))
        errors += checks.forbidden_if(ref.name, path.child("selector"), both)
    errors += checks.require(ref.name or ref.selector is not None, path, "one of name or selector must be specified")
    return errors + rules.require_choice(
        ref.parameter_not_found_action or None, _NOT_FOUND_ACTIONS, path.child("parameterNotFoundAction")
    )


def _validate_validation_actions(actions: Sequence[str], path: Path) -> Errors:
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, each in enumerate(actions):
        errors += checks.one_of(each, _ACTIONS, path.index(index)) + seen.add(each, path.index(index))
    if {"Deny", "Warn"} <= set(actions):
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response"
            " and headers serves no purpose)"
        )
        errors.append(field_errors.invalid(path, actions, detail))
    return errors + checks.require(actions, path)
