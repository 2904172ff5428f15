"""What the containers of a simulated pod do, as far as their command tells: ``mooring.shell`` works it out.

A run of a pod is worked out once, when it starts: how long each container takes, and how it ends. Files in `emptyDir`,
`hostPath` and claims are shared and stay as long as they would; they are in memory alone, so that a restart of the
controllers forgets them. Where a command is not understood, the rules of ``rules.py`` hold. Called by ``pods.py``.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

import msgspec

from mooring.api.core_v1 import Container, Pod
from mooring.api.environment import UnknownValueError, environment_of, with_references
from mooring.controllers.simulated_nodes.rules import PodRules
from mooring.shell import Budget, Files, NotUnderstood, Outcome, command_line, run
from mooring.shell.files import Store

_ENDLESS_IMAGES = frozenset({"pause"})
"""Images that do nothing until they are stopped."""
_NOT_KNOWN = frozenset({"PATH", "HOME", "PWD", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"})
"""Variables that every container has, and whose values depend on the image or the cluster."""
_MOST_VOLUMES, _MOST_PODS, _RUNS_A_POD, _MOST_NAMESPACES = 10_000, 100_000, 4, 1000
STEPS_A_POD = 60_000
"""For one turn: 0.1 s of this process at most."""
STEPS_A_SECOND = 100_000.0
_MOST_DEBT_SECONDS = STEPS_A_POD / STEPS_A_SECOND + 1
T = TypeVar("T")


class Run(msgspec.Struct, frozen=True):
    """One run of a pod's containers."""

    seconds: float | None
    """Until the last of them ends; None: for ever."""
    exit_codes: Mapping[str, int] = msgspec.field(default_factory=dict)


class Failure(msgspec.Struct, frozen=True):
    """An init container that ends badly."""

    container: str
    exit_code: int


class PodRuns(msgspec.Struct, frozen=True):
    """What one pod does: `Commands` with the pod."""

    commands: "Commands"
    pod: Pod
    rules: PodRules

    def __call__(self, restarts: int, at: datetime) -> Run:
        """How the run after so many restarts goes, which starts or started at a time."""
        return self.commands.run_of(self.pod, self.rules, restarts, at)

    def failed_init(self, attempt: int, at: datetime) -> Failure | None:
        """The init container that fails in an attempt to start the pod."""
        return self.commands.failed_init(self.pod, self.rules, attempt, at)


class StepsUsedUpError(Exception):
    """The pods of a namespace have used up their steps; try again in so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Runs(msgspec.Struct):
    """Runs of one pod by number of restarts, the newest last; None where a command is not understood."""

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
        """The steps that the pods of a namespace have left, and since when."""

    def run_of(self, pod: Pod, rules: PodRules, restarts: int, now: datetime) -> Run:
        """Return how a run goes that starts now, or has started; the same each time. Raises StepsUsedUpError."""
        if rules.is_explicit or not any(_words(container) for container in pod.spec.containers):
            return self._by_rules(pod, rules, restarts)
        runs = self._runs_of(pod).runs
        if restarts not in runs:
            with self._budget(pod) as budget:
                _keep(runs, restarts, self._worked_out(pod, restarts, now, budget))
        return runs[restarts] or self._by_rules(pod, rules, restarts)

    def failed_init(self, pod: Pod, rules: PodRules, attempt: int, now: datetime) -> Failure | None:
        """Return the first init container whose command fails, if it is understood. Raises StepsUsedUpError."""
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
        """Drop what only this pod has: it is gone."""
        uid = pod.metadata.uid
        self._pods.pop(uid, None)
        for volume in pod.spec.volumes:
            self._volumes.pop(("emptyDir", uid, volume.name), None)

    def _by_rules(self, pod: Pod, rules: PodRules, restarts: int) -> Run:
        endless = not rules.is_explicit and any(_is_endless(container) for container in pod.spec.containers)
        code = rules.exit_of(pod, restarts)
        codes = {container.name: code for container in pod.spec.containers}
        return Run(None if endless else rules.run_seconds, codes)

    def _worked_out(self, pod: Pod, restarts: int, now: datetime, budget: Budget) -> Run | None:
        """The run as the commands say; None if one of them is not understood."""
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
        """Evaluate a container's command; None if it is not understood."""
        try:
            variables = environment_of(pod, container)
            words = [with_references(word, variables) for word in _words(container)]
            seed = f"{pod.metadata.uid}/{container.name}/{restarts}"
            known = variables | dict.fromkeys(_NOT_KNOWN - variables.keys())
            return run(words, known, self._files(pod, container), began=now.timestamp(), seed=seed, budget=budget)
        except (NotUnderstood, UnknownValueError):
            return None

    def _files(self, pod: Pod, container: Container) -> Files:
        """The volumes whose files are known, where the container has them."""
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
