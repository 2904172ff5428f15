"""Compute what the containers of a simulated pod do from their commands (``mooring.shell``).

A run is computed once, when it starts: how long each container takes and how it exits. Files in `emptyDir`, `hostPath`
and claims are shared, and kept in memory only, so a restart of the controllers loses them. If a command is not
understood, ``rules.py`` applies. Called by ``pods.py``.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

import msgspec

from mooring.api.core_v1 import Container, Pod
from mooring.api.environment import UnknownValueError, environment_of, expand_references
from mooring.controllers.simulated_nodes.rules import PodRules
from mooring.shell import Budget, Files, NotUnderstood, Outcome, command_line, run
from mooring.shell.files import Store

_ENDLESS_IMAGES = frozenset({"pause"})
_NOT_KNOWN = frozenset({"PATH", "HOME", "PWD", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"})
"""Variables of every container whose values depend on the image or the cluster."""
_MOST_VOLUMES, _MOST_PODS, _RUNS_A_POD, _MOST_NAMESPACES = 10_000, 100_000, 4, 1000
STEPS_A_POD = 60_000
"""For one turn: at most 0.1 s of this process."""
STEPS_A_SECOND = 100_000.0
_MOST_DEBT_SECONDS = STEPS_A_POD / STEPS_A_SECOND + 1
T = TypeVar("T")


class Run(msgspec.Struct, frozen=True):
    """One run of a pod's containers."""

    seconds: float | None
    exit_codes: Mapping[str, int] = msgspec.field(default_factory=dict)


class Failure(msgspec.Struct, frozen=True):
    """An init container that fails."""

    container: str
    exit_code: int


class PodRuns(msgspec.Struct, frozen=True):
    """The runs of one pod: `Commands` with the pod."""

    commands: "Commands"
    pod: Pod
    rules: PodRules

    def __call__(self, restarts: int, at: datetime) -> Run:
        """Return the run after so many restarts, which starts or started at a time."""
        return self.commands.run_of(self.pod, self.rules, restarts, at)

    def failed_init(self, attempt: int, at: datetime) -> Failure | None:
        """Return the init container that fails in an attempt to start the pod."""
        return self.commands.failed_init(self.pod, self.rules, attempt, at)


class StepsUsedUpError(Exception):
    """The pods of a namespace have used up their steps; retry in so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Runs(msgspec.Struct):
    runs: dict[int, Run | None] = msgspec.field(default_factory=dict)
    inits: dict[int, Failure | None] = msgspec.field(default_factory=dict)


class Commands:
    """The runs of all pods, and the files that they leave.

    Scripts are evaluated on the event loop. So a pod has `STEPS_A_POD` steps for all of its containers, and the pods of
    a namespace `STEPS_A_SECOND` between them: what is beyond waits, and no other namespace waits for it.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pods: OrderedDict[str, _Runs] = OrderedDict()
        self._volumes: OrderedDict[tuple[str, ...], Store] = OrderedDict()
        self._steps: dict[str, tuple[float, float]] = {}
        """Remaining steps of each namespace, and since when."""

    def run_of(self, pod: Pod, rules: PodRules, restarts: int, now: datetime) -> Run:
        """Return the run that starts or started now, the same each time. Raise StepsUsedUpError."""
        if rules.is_explicit or not any(_words(container) for container in pod.spec.containers):
            return self._by_rules(pod, rules, restarts)
        runs = self._runs_of(pod).runs
        if restarts not in runs:
            with self._budget(pod) as budget:
                _keep(runs, restarts, self._worked_out(pod, restarts, now, budget))
        return runs[restarts] or self._by_rules(pod, rules, restarts)

    def failed_init(self, pod: Pod, rules: PodRules, attempt: int, now: datetime) -> Failure | None:
        """Return the first init container whose command fails, if known. Raise StepsUsedUpError."""
        if rules.is_explicit or not any(_words(container) for container in pod.spec.init_containers):
            return None
        inits = self._runs_of(pod).inits
        if attempt not in inits:
            with self._budget(pod) as budget:
                _keep(inits, attempt, self._first_failure(pod, attempt, now, budget))
        return inits[attempt]

    def _runs_of(self, pod: Pod) -> _Runs:
        found = self._pods.setdefault(pod.metadata.uid, _Runs())
        if len(self._pods) > _MOST_PODS:
            self._pods.popitem(last=False)
        return found

    @contextmanager
    def _budget(self, pod: Pod) -> Iterator[Budget]:
        namespace, now = pod.metadata.namespace, self._monotonic()
        left, since = self._steps.get(namespace, (STEPS_A_SECOND, now))
        left = min(STEPS_A_SECOND, left + (now - since) * STEPS_A_SECOND)
        if left <= 0:
            raise StepsUsedUpError(max(-left / STEPS_A_SECOND, 0.05))
        budget = Budget(STEPS_A_POD)
        try:
            yield budget
        finally:
            self._steps[namespace] = (left - STEPS_A_POD + max(budget.steps, 0), now)
            if len(self._steps) > _MOST_NAMESPACES:
                self._steps = {key: kept for key, kept in self._steps.items() if now - kept[1] < _MOST_DEBT_SECONDS}

    def _first_failure(self, pod: Pod, attempt: int, now: datetime, budget: Budget) -> Failure | None:
        for container in pod.spec.init_containers:
            if _words(container) and container.restart_policy != "Always":
                outcome = self._outcome(pod, container, attempt, now, budget)
                if outcome is not None and outcome.exit_code:
                    return Failure(container.name, outcome.exit_code)
        return None

    def forget(self, pod: Pod) -> None:
        """Drop a deleted pod."""
        uid = pod.metadata.uid
        self._pods.pop(uid, None)
        for volume in pod.spec.volumes:
            self._volumes.pop(("emptyDir", uid, volume.name), None)

    def _by_rules(self, pod: Pod, rules: PodRules, restarts: int) -> Run:
        endless = not rules.is_explicit and any(_is_endless(container) for container in pod.spec.containers)
        code = rules.exit_code_of(pod, restarts)
        codes = {container.name: code for container in pod.spec.containers}
        return Run(None if endless else rules.run_seconds, codes)

    def _worked_out(self, pod: Pod, restarts: int, now: datetime, budget: Budget) -> Run | None:
        codes: dict[str, int] = {}
        longest: float | None = 0.0
        for container in pod.spec.containers:
            if _is_endless(container):
                longest = None
                continue
            found = self._outcome(pod, container, restarts, now, budget)
            if found is None:
                return None
            longest = None if found.exit_code is None or longest is None else max(longest, found.seconds)
            codes[container.name] = found.exit_code or 0
        return Run(longest, codes)

    def _outcome(self, pod: Pod, container: Container, restarts: int, now: datetime, budget: Budget) -> Outcome | None:
        try:
            variables = environment_of(pod, container)
            words = [expand_references(word, variables) for word in _words(container)]
            seed = f"{pod.metadata.uid}/{container.name}/{restarts}"
            known = variables | dict.fromkeys(_NOT_KNOWN - variables.keys())
            return run(words, known, self._files(pod, container), began=now.timestamp(), seed=seed, budget=budget)
        except (NotUnderstood, UnknownValueError):
            return None

    def _files(self, pod: Pod, container: Container) -> Files:
        volumes = {volume.name: volume for volume in pod.spec.volumes}
        places: dict[str, Store] = {}
        for mount in container.volume_mounts:
            volume = volumes.get(mount.name)
            if volume is None or mount.sub_path or mount.sub_path_expr:
                continue
            key: tuple[str, ...] | None = None
            if volume.empty_dir is not None:
                key = ("emptyDir", pod.metadata.uid, volume.name)
            elif volume.host_path is not None:
                key = ("hostPath", pod.spec.node_name, volume.host_path.path)
            elif volume.persistent_volume_claim is not None:
                key = ("claim", pod.metadata.namespace, volume.persistent_volume_claim.claim_name)
            if key is not None:
                places[mount.mount_path.rstrip("/")] = self._volumes.setdefault(key, {})
        while len(self._volumes) > _MOST_VOLUMES:
            self._volumes.popitem(last=False)
        return Files(places)


def _keep(runs: dict[int, T], number: int, found: T) -> None:
    runs[number] = found
    if len(runs) > _RUNS_A_POD:
        del runs[next(iter(runs))]


def _words(container: Container) -> list[str]:
    return command_line(container.command, container.args)


def _is_endless(container: Container) -> bool:
    image = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return not container.command and image in _ENDLESS_IMAGES
