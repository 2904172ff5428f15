"""Rows of admission policies and their bindings."""

from typing import Any

from mooring.api.admissionregistration_v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ParamKind,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from mooring.apiserver.output.tables.printer import UNSET, Printer, age, number, selector, text


def _param_kind(kind: ParamKind | None) -> str:
    return UNSET if kind is None else f"{kind.api_version}/{kind.kind}"


def _validating(each: ValidatingAdmissionPolicy) -> list[Any]:
    meta, spec = each.metadata, each.spec
    return [meta.name, len(spec.validations), _param_kind(spec.param_kind), age(meta.creation_timestamp)]


def _mutating(each: MutatingAdmissionPolicy) -> list[Any]:
    meta, spec = each.metadata, each.spec
    return [meta.name, len(spec.mutations), _param_kind(spec.param_kind), age(meta.creation_timestamp)]


def _binding(each: ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding) -> list[Any]:
    meta, ref = each.metadata, each.spec.param_ref
    shown = UNSET
    if ref is not None and ref.name:
        shown = f"{ref.namespace or '*'}/{ref.name}"
    elif ref is not None and ref.selector is not None:
        shown = selector(ref.selector)
    return [meta.name, each.spec.policy_name, shown, age(meta.creation_timestamp)]


VALIDATING = Printer((text("Name"), number("Validations"), text("ParamKind"), text("Age")), _validating)
MUTATING = Printer((text("Name"), number("Mutations"), text("ParamKind"), text("Age")), _mutating)
BINDINGS = Printer((text("Name"), text("PolicyName"), text("ParamRef"), text("Age")), _binding)
