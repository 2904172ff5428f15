"""The registry of metrics that a component begins with: what it is, which gates are on, and what the process uses.

`cli/` makes one for each component; the component adds its own. Names are those of Kubernetes where it has the same.
"""

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics

from mooring.base.component import Component

# Kubernetes' pages have no `…_created`, and each would be a series more.
disable_created_metrics()  # type: ignore[no-untyped-call] # prometheus_client gives it no types


def registry_of(component: Component) -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    versions = component.versions
    Gauge(
        "mooring_build_info",
        "Always 1; the labels say which versions run.",
        ("binary_version", "emulation_version", "min_compatibility_version"),
        registry=registry,
    ).labels(str(versions.binary), str(versions.emulation), str(versions.min_compatibility)).set(1)
    gates = Gauge(
        "kubernetes_feature_enabled",
        "1 if the feature gate is on, 0 if it is off.",
        ("name", "stage"),
        registry=registry,
    )
    for name, state in component.gates.states.items():
        stage = str(state.spec.stage).upper()
        gates.labels(name, "" if stage == "GA" else stage).set(state.enabled)
    return registry
