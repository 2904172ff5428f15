"""resource.k8s.io/v1alpha3: DeviceTaintRule, which has the same shape as in v1."""

from mooring.api.resource_v1 import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintRuleStatus,
    DeviceTaintSelector,
)

__all__ = [
    "DeviceTaint",
    "DeviceTaintRule",
    "DeviceTaintRuleSpec",
    "DeviceTaintRuleStatus",
    "DeviceTaintSelector",
]
