"""What-if simulation: apply changes to a copy of a cluster and find where every pod would go.

    snapshot = dump([Path("cluster.yaml")])
    scenario = Scenario(steps=(Step((Drain(("worker-1",)),)),))
    result = simulate(snapshot, scenario)
    result.counts.pending, result.placements

Pods are created by the controllers' functions, admitted by the server's and placed by the scheduler's engine and queue;
only time is virtual. Nothing is written. Read next:

    changes         what can be done to a cluster        scenario_file   the same from YAML
    running         steps and time                       applying        how a change is carried out
    world           the simulated cluster                scheduling      how pods get nodes
    workloads       where pods come from                 evictions       how they have to leave
    results         the typed result                     reports, html   text, tables and pages of it
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
from mooring.advisor.simulate.outcome import compare, result_of
from mooring.advisor.simulate.results import Simulation
from mooring.advisor.simulate.running import Progress, SimulationRun, Tell
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
    "check_rights",
    "compare",
    "kinds_of_interest",
    "result_of",
    "simulate",
]


def simulate(
    snapshot: Snapshot, scenario: Scenario, settings: Settings | None = None, *, tell: Tell | None = None
) -> Simulation:
    """Carry a scenario out on a copy of a cluster. Raises ScenarioError for a step that is impossible, and for a
    cluster of which the nodes or the pods may not be read.

    A KeyboardInterrupt ends it early: the result is then not complete, and says so.
    """
    check_rights(snapshot)
    running = SimulationRun(snapshot, scenario, settings or Settings(), tell)
    with suppress(KeyboardInterrupt):  # the result has the time of the interruption
        running.run()
    return result_of(running, snapshot)


def check_rights(snapshot: Snapshot) -> None:
    """Raise ScenarioError where the nodes or pods of a cluster may not be read."""
    for plural in ("nodes", "pods"):
        if (why := snapshot.forbidden.get(plural)) is not None:
            raise ScenarioError(f"the {plural} of {snapshot.origin} could not be read ({why})")


def kinds_of_interest() -> tuple[type[Resource], ...]:
    """Return the kinds of a live cluster that a simulation reads: what makes, places and admits pods."""
    kinds: tuple[type[Resource], ...] = (
        Node,
        Pod,
        Deployment,
        DaemonSet,
        Job,
        PriorityClass,
        ResourceClaimTemplate,
        *RULES,
        *OTHER_KINDS,
    )
    return tuple(dict.fromkeys(kinds))
