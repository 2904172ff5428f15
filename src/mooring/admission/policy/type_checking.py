"""What the types of the kinds that a policy names say about its expressions: warnings for its status.

Nothing depends on them: a policy with warnings works as well as one without. Called by the controller that writes the
status. Kinds behind wildcards are not looked at, and neither are custom kinds.
"""

from collections.abc import Iterator

from mooring.admission.options import stored_policies
from mooring.admission.policy.attributes import GroupVersionKind
from mooring.admission.policy.compiling import compiled
from mooring.admission.policy.strategy import declared_type
from mooring.api.admissionregistration_v1 import ExpressionWarning, ValidatingAdmissionPolicy
from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme
from mooring.cel.environment import Environment
from mooring.cel.types import DYN, Type
from mooring.constraints.celenv.admission import with_variables
from mooring.constraints.celenv.structs import declare_struct

_MOST_KINDS = 10
_ANY = "*"


def expression_warnings(policy: ValidatingAdmissionPolicy, scheme: Scheme) -> list[ExpressionWarning]:
    """One for each expression in which something was found, for all kinds together."""
    kinds = sorted(_kinds(policy, scheme), key=GroupVersionKind.of)[:_MOST_KINDS]
    environments = [(kind, _environment(policy, kind, scheme)) for kind in kinds]
    warnings = []
    for index, validation in enumerate(policy.spec.validations):
        place = f"spec.validations[{index}]"
        for name, text in (
            ("expression", validation.expression),
            ("messageExpression", validation.message_expression),
        ):
            found = [*_found(text, environments)] if text else []
            if found:
                warnings.append(ExpressionWarning(field_ref=f"{place}.{name}", warning="\n".join(found)))
    return warnings


def _found(text: str, environments: list[tuple[Kind, Environment]]) -> Iterator[str]:
    for kind, environment in environments:
        issues = environment.compile(text).issues
        if issues:
            said = "\n".join(map(str, issues))
            yield f"{kind.group}/{kind.version}, Kind={kind.kind}: {said}\n"


def _kinds(policy: ValidatingAdmissionPolicy, scheme: Scheme) -> set[Kind]:
    """The kinds that rules name without wildcards."""
    constraints = policy.spec.match_constraints
    found = set()
    for rule in constraints.resource_rules if constraints else ():
        if _ANY in rule.api_groups or _ANY in rule.api_versions:
            continue
        for group in rule.api_groups:
            for version in rule.api_versions:
                kinds = (scheme.resource(group, version, each) for each in rule.resources if "/" not in each)
                found |= {kind for kind in kinds if kind is not None and kind.custom is None}
    return found


def _environment(policy: ValidatingAdmissionPolicy, kind: Kind, scheme: Scheme) -> Environment:
    """What the expressions may use where the object is of a kind."""
    param_kind = policy.spec.param_kind
    declared = declare_struct(kind.type, kind.kind)
    variables: dict[str, Type] = {"object": declared[0].type, "oldObject": declared[0].type}
    types = declared
    params = scheme.kind(param_kind.api_version, param_kind.kind) if param_kind is not None else None
    if params is not None and params.custom is None:
        of_params = declare_struct(params.type, f"params.{params.kind}")
        variables["params"] = of_params[0].type
        types += of_params
    base = stored_policies(params=param_kind is not None).extend(variables=variables, types=types)
    known: dict[str, Type] = {}
    for each in policy.spec.variables:
        found = compiled(with_variables(base, known, each.expression), each.expression)
        known[each.name] = DYN if found.error else declared_type(found.program.output_type)
    return with_variables(base, known)
