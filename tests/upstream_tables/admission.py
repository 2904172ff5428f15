"""Tables about what may be stored: pod validation, label keys merged into selectors, fields of gates that are off."""

import copy
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from msgspec import structs

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.affinity import validate_spread
from mooring.admission.pod.mutation import drop_disabled_fields, merge_label_keys
from mooring.admission.pod.rules import rules_for_create, rules_for_update
from mooring.admission.pod.strategy import PodStrategy
from mooring.admission.pod.tolerations import validate_tolerations
from mooring.admission.strategy import Request
from mooring.api.core_v1 import Pod
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from upstream_tables import case as decoding
from upstream_tables.case import NotPlayableError, Play, Tree, decode, difference

_STRATEGY = PodStrategy()
_DEFAULT = AdmissionOptions()
_STOCK = AdmissionOptions(comparison_operators=False, semver_operators=False, cel=False)
"""Without the gates that upstream's tests do not switch on."""
_RELAXED = (
    "OldPodViolatesMatchLabelKeysValidation",
    "OldPodViolatesLegacyMatchLabelKeysValidation",
    "AllowInvalidTopologySpreadConstraintLabelSelector",
)
"""Options that upstream derives from the stored pod; here the rules for updates are derived from it as well."""
_FILLED_IN = {
    "bad namespace": "the server fills in the namespace before validation",
    "serviceaccount token projected volume with no expiration specified": "defaulting fills in the expiration",
}


def _request(options: AdmissionOptions = _DEFAULT) -> Request:
    return Request(options=options, now=datetime.now(UTC), namespace="default")


def _text(errors: Iterable[FieldError]) -> str:
    return "; ".join(map(str, errors))


def _expected(text: str, upstream: str) -> str | None:
    found = upstream in text if upstream else not text
    return None if found else f"{text[:400]!r}, upstream {upstream!r}"


def _numeric(case: Tree) -> str | None:
    rules = rules_for_create(structs.replace(_STOCK, comparison_operators=case["on"]), is_pod=True)
    errors = validate_tolerations(decoding.tolerations([case["toleration"]]), Path("tolerations"), rules)
    return _expected(_text(errors), case["error"])


def _spread(case: Tree) -> str | None:
    given = case["opts"]
    options = AdmissionOptions(
        label_keys_in_spread=True,
        label_keys_in_spread_merge=given.get("AllowMatchLabelKeysInPodTopologySpreadSelectorMerge", False),
    )
    spec = decoding.pod_spec({"topologySpreadConstraints": case["constraints"]})
    rules = rules_for_create(options, is_pod=True)
    if any(given.get(name) for name in _RELAXED):
        rules = rules_for_update(options, copy.deepcopy(spec), is_pod=True)
    errors = validate_spread(spec.topology_spread_constraints, Path("field"), rules)
    ours, upstream = sorted(str(error.path) for error in errors), sorted(field for _, field in case["errors"])
    return None if ours == upstream else f"{_text(errors)!r}, upstream {case['errors']}"


def _pod(tree: Tree) -> Pod:
    pod = decode(tree, Pod)
    pod.metadata.namespace = pod.metadata.namespace or "default"
    return pod


def _create(case: Tree) -> str | None:
    if case["name"] in _FILLED_IN:
        raise NotPlayableError(_FILLED_IN[case["name"]])
    return _expected(_text(_STRATEGY.validate_create(_pod(case["pod"]), _request(_STOCK))), case["error"])


def _update(case: Tree) -> str | None:
    old, new = _pod(case["old"]), _pod(case["new"])
    for pod in (old, new):
        pod.metadata.resource_version = "1"
        pod.metadata.name = pod.metadata.name or "x"
    return _expected(_text(_STRATEGY.validate_update(new, old, _request())), case["error"])


def _tree(value: object) -> object:
    return msgspec.to_builtins(value)


def _merged_affinity(case: Tree) -> str | None:
    pod, wanted = decode(case["pod"], Pod), decode(case["want"], Pod)
    merge_label_keys(pod, AdmissionOptions(label_keys_in_pod_affinity=case["on"]))
    return difference(_tree(pod.spec.affinity), _tree(wanted.spec.affinity))


def _merged_spread(case: Tree) -> str | None:
    pod, wanted = decode(case["pod"], Pod), decode(case["want"], Pod)
    options = AdmissionOptions(label_keys_in_spread=case["on"], label_keys_in_spread_merge=case["merge"])
    merge_label_keys(pod, options)
    return difference(_tree(pod.spec.topology_spread_constraints), _tree(wanted.spec.topology_spread_constraints))


def _updated_labels(case: Tree) -> str | None:
    options = AdmissionOptions(label_keys_in_spread=case["on"], label_keys_in_spread_merge=case["merge"])
    request = _request(options)
    old, wanted = decode(case["pod"], Pod), decode(case["want"], Pod)
    _STRATEGY.prepare_for_create(old, request)
    new = copy.deepcopy(old)
    new.metadata.labels.update(case["labels"])
    _STRATEGY.prepare_for_update(new, old, request)
    return difference(
        (_tree(new.spec.topology_spread_constraints), new.metadata.labels),
        (_tree(wanted.spec.topology_spread_constraints), wanted.metadata.labels),
    )


def _dropped(case: Tree, option: str) -> str | None:
    spec = decoding.pod_spec(case["podSpec"])
    old = None if case["oldPodSpec"] is None else decoding.pod_spec(case["oldPodSpec"])
    drop_disabled_fields(spec, old, structs.replace(_DEFAULT, **{option: case["on"]}), lambda *_: None)
    return difference(_tree(spec), _tree(decoding.pod_spec(case["want"])))


def _operators_in_use(case: Tree) -> str | None:
    if case["old"] is None and case["fn"].endswith("InUse"):
        raise NotPlayableError("nothing is in use where there is no stored pod")
    options = AdmissionOptions(comparison_operators=case["on"] and case["fn"].startswith("TestAllow"))
    if case["old"] is not None:
        options = rules_for_update(options, decoding.pod_spec(case["old"]), is_pod=True).options
    return difference(options.comparison_operators, bool(case["want"]))


TABLES: dict[str, Play] = {
    "numeric_validation": _numeric,
    "spread_validation": _spread,
    "validate_pod": _create,
    "validate_pod_update": _update,
    "mutate_affinity": _merged_affinity,
    "mutate_spread": _merged_spread,
    "update_spread": _updated_labels,
    "drop_affinity": lambda case: _dropped(case, "label_keys_in_pod_affinity"),
    "drop_spread": lambda case: _dropped(case, "label_keys_in_spread"),
    "comparison_in_use": _operators_in_use,
}
