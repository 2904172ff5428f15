"""Type-check a policy's expressions against the kinds that it names, as warnings for its status.

The warnings have no effect on the policy. Wildcards are not checked. The types of custom kinds are those of their
schemas, plus standard metadata.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from mooring.admission import checks
from mooring.admission.options import stored_policies
from mooring.admission.policy.attributes import GroupVersionKind
from mooring.admission.policy.compiling import compile_expression
from mooring.admission.policy.strategy import to_declarable_type
from mooring.api.admissionregistration_v1 import ExpressionWarning, ParamKind, ValidatingAdmissionPolicy
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.scheme import Scheme
from mooring.cel.environment import Environment
from mooring.cel.types import DYN, STRING, Field, ObjectType, Type
from mooring.constraints.celenv.admission import with_variables
from mooring.constraints.celenv.schemas import declare, declare_struct

_MAX_KINDS = 10
_ANY = "*"
_Types = tuple[ObjectType, ...]
"""The CEL type of a kind, and its nested types."""


def find_expression_warnings(
    policy: ValidatingAdmissionPolicy, scheme: Scheme, definitions: Collection[CustomResourceDefinition] = ()
) -> list[ExpressionWarning]:
    """Return a warning for each expression that has type errors with any of the kinds which the policy's rules name."""
    known = _TypeLookup(scheme, definitions)
    kinds = sorted(_find_matched_kinds(policy, known).items())[:_MAX_KINDS]
    environments = [(kind, _build_environment(policy, types, known)) for kind, types in kinds]
    warnings = []
    for index, validation in enumerate(policy.spec.validations):
        place = f"spec.validations[{index}]"
        for name, text in checks.select_fields(validation, "expression", "messageExpression"):
            found = [*_find_type_issues(text, environments)] if text else []
            if found:
                warnings.append(ExpressionWarning(field_ref=f"{place}.{name}", warning="\n".join(found)))
    return warnings


def _find_type_issues(text: str, environments: list[tuple[GroupVersionKind, Environment]]) -> Iterator[str]:
    for kind, environment in environments:
        issues = environment.compile(text).issues
        if issues:
            said = "\n".join(map(str, issues))
            yield f"{kind.group}/{kind.version}, Kind={kind.kind}: {said}\n"


class _TypeLookup(NamedTuple):
    """Finds the CEL types for resources and parameter kinds, built-in and custom."""

    scheme: Scheme
    definitions: Collection[CustomResourceDefinition]

    def find_resource_types(self, group: str, version: str, resource: str) -> tuple[GroupVersionKind, _Types] | None:
        kind = self.scheme.resource(group, version, resource)
        if kind is not None and kind.custom is None:
            return GroupVersionKind.of_kind(kind), declare_struct(kind.type, kind.kind)
        for each in self.definitions:
            if (each.spec.group, each.spec.names.plural) == (group, resource):
                types = _build_custom_types(each, version, each.spec.names.kind)
                return None if types is None else (GroupVersionKind(group, version, each.spec.names.kind), types)
        return None

    def find_param_types(self, wanted: ParamKind | None) -> _Types | None:
        if wanted is None:
            return None
        name = f"params.{wanted.kind}"
        kind = self.scheme.kind(wanted.api_version, wanted.kind)
        if kind is not None and kind.custom is None:
            return declare_struct(kind.type, name)
        group, version = GroupVersion.parse(wanted.api_version)
        for each in self.definitions:
            if (each.spec.group, each.spec.names.kind) == (group, wanted.kind):
                return _build_custom_types(each, version, name)
        return None


def _build_custom_types(definition: CustomResourceDefinition, version: str, name: str) -> _Types | None:
    schemas = [each.schema for each in definition.spec.versions if each.name == version and each.served]
    schema = schemas[0].open_api_v3_schema if schemas and schemas[0] is not None else None
    declared = declare(schema, name) if schema is not None else None
    if declared is None:
        return None
    own, *below = declared.objects()
    metadata = declare_struct(ObjectMeta, f"{name}.metadata")
    fields = {"apiVersion": Field(STRING), "kind": Field(STRING), "metadata": Field(metadata[0].type)}
    others = [each for each in below if not f"{each.name}.".startswith(f"{name}.metadata.")]
    return ObjectType(own.name, {**own.fields, **fields}), *others, *metadata


def _find_matched_kinds(policy: ValidatingAdmissionPolicy, known: _TypeLookup) -> dict[GroupVersionKind, _Types]:
    constraints = policy.spec.match_constraints
    found: dict[GroupVersionKind, _Types] = {}
    for rule in constraints.resource_rules if constraints else ():
        if _ANY in rule.api_groups or _ANY in rule.api_versions:
            continue
        for group in rule.api_groups:
            for version in rule.api_versions:
                kinds = (known.find_resource_types(group, version, each) for each in rule.resources if "/" not in each)
                found |= dict(each for each in kinds if each is not None)
    return found


def _build_environment(policy: ValidatingAdmissionPolicy, types: _Types, known: _TypeLookup) -> Environment:
    variables: dict[str, Type] = {"object": types[0].type, "oldObject": types[0].type}
    params = known.find_param_types(policy.spec.param_kind)
    if params is not None:
        variables["params"] = params[0].type
        types += params
    base = stored_policies(params=policy.spec.param_kind is not None).extend(variables=variables, types=types)
    declared: dict[str, Type] = {}
    for each in policy.spec.variables:
        found = compile_expression(with_variables(base, declared, each.expression), each.expression)
        declared[each.name] = DYN if found.error else to_declarable_type(found.program.output_type)
    return with_variables(base, declared)
