"""What-if simulation: apply changes to a copy of a cluster and find the node of every pod.

    snapshot = dump([Path("cluster.yaml")])
    scenario = Scenario(steps=(Step((Drain(("worker-1",)),)),))
    result = simulate(snapshot, scenario)
    result.counts.pending, result.placements

Pods are created by the controllers' functions, admitted by the server's and placed by the scheduler's engine and queue;
only time is virtual. Nothing is written. Read next:

    changes          the possible changes of a cluster
    scenario_file    the same from YAML
    running          steps and time
    applying         apply a change
    world            the simulated cluster
    scheduling       schedule pods
    workloads        create and replace pods
    evictions        evict pods
    results          the typed result
    reports, html    text, tables and pages
"""

from contextlib import suppress

from mooring.advisor.simulate.changes import (
    Add,
    AddNodes,
    Change,
    Cordon,
    Drain,
    Label,
    Remove,
    RemoveNodes,
    Scenario,
    ScenarioError,
    Step,
    Taint,
    Untaint,
)
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.outcome import build_result, compare_results
from mooring.advisor.simulate.results import Simulation
from mooring.advisor.simulate.running import ReportProgress, SimulationRun
from mooring.advisor.simulate.world import Progress
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.namespace_rules import RULES
from mooring.api.apps_v1 import DaemonSet, Deployment
from mooring.api.batch_v1 import Job
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import ResourceClaimTemplate
from mooring.api.scheduling_v1 import PriorityClass
from mooring.scheduler.facade import OTHER_KINDS

__all__ = [
    "Add",
    "AddNodes",
    "Change",
    "Cordon",
    "Drain",
    "Label",
    "Progress",
    "Remove",
    "RemoveNodes",
    "Scenario",
    "ScenarioError",
    "Settings",
    "Simulation",
    "Step",
    "Taint",
    "Untaint",
    "build_result",
    "check_rights",
    "compare_results",
    "kinds_to_read",
    "simulate",
]


def simulate(
    snapshot: Snapshot, scenario: Scenario, settings: Settings | None = None, *, report: ReportProgress | None = None
) -> Simulation:
    """Run a scenario on a copy of a cluster.

    Raise ScenarioError for a step that is impossible, and if the user may not read the cluster's nodes or pods. A
    KeyboardInterrupt ends it early; the result is then marked as incomplete.
    """
    check_rights(snapshot)
    running = SimulationRun(snapshot, scenario, settings or Settings(), report)
    with suppress(KeyboardInterrupt):  # the result has the time of the interruption
        running.run()
    return build_result(running, snapshot)


def check_rights(snapshot: Snapshot) -> None:
    """Raise ScenarioError if the user may not read the nodes or pods of a cluster."""
    for plural in ("nodes", "pods"):
        if (why := snapshot.forbidden.get(plural)) is not None:
            raise ScenarioError(f"the {plural} of {snapshot.origin} could not be read ({why})")


def kinds_to_read() -> tuple[type[Resource], ...]:
    """Return the kinds that a simulation reads from a live cluster: those that create, place and admit pods."""
    own = (Node, Pod, Deployment, DaemonSet, Job, PriorityClass, ResourceClaimTemplate)
    return tuple(dict.fromkeys((*own, *RULES, *OTHER_KINDS)))
