"""Compute what the containers of a simulated pod do: from annotations, else from their commands (``mooring.shell``).

A run is computed once, when it starts: how long each container takes and how it exits. Files in `emptyDir`, `hostPath`
and claims are shared, and kept in memory only, so a restart of the controllers loses them. If a command is not
understood, `PodRules` apply. Called by ``pods.py``.

    simulation.mooring.dev/start-seconds: "2"          # until the containers run; default 0
    simulation.mooring.dev/run-seconds: "30"           # until they end; default: by their command, or for ever;
                                                       # pods of a Job with an unknown command 5
    simulation.mooring.dev/failure-probability: "0.1"  # that they exit with the exit code; default 0
    simulation.mooring.dev/exit-code: "42"             # of failing containers; default 1
    simulation.mooring.dev/stop-seconds: "3"           # from deletion to the end, in the grace period; default 0
"""

import math
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

import msgspec

from mooring.api.core_v1 import Container, Pod
from mooring.api.environment import UnknownValueError, environment_of, expand_references
from mooring.api.simulation import PREFIX
from mooring.api.states import controller_of
from mooring.shell import Budget, Files, NotUnderstood, Outcome, command_line, run
from mooring.shell.files import Store

_JOB_SECONDS = 5.0


class PodRules(msgspec.Struct, frozen=True):
    """The behaviour of one simulated pod: durations and exit codes from annotations or commands."""

    start_seconds: float = 0.0
    run_seconds: float | None = None
    failure_probability: float = 0.0
    exit_code: int = 1
    stop_seconds: float = 0.0
    is_explicit: bool = False
    """Whether annotations set the duration or exit code, so that commands are ignored."""
    complaints: tuple[str, ...] = ()
    """The invalid annotation values, for which the default applies."""

    def exit_code_of(self, pod: Pod, restarts: int) -> int:
        """Return the exit code of a run of the pod's containers: 0, or with the failure probability `exit_code`.

        It is pseudo-random: the same pod and number of restarts always have the same code.
        """
        if not self.failure_probability:
            return 0
        chance = random.Random(f"{pod.metadata.uid}/{restarts}").random()  # noqa: S311 - a simulation, no secret
        return self.exit_code if chance < self.failure_probability else 0


def read_rules(pod: Pod) -> PodRules:
    """Return the behaviour that a pod's annotations request, with defaults for what they do not set."""
    annotations = pod.metadata.annotations
    owner = controller_of(pod.metadata)
    runs = _JOB_SECONDS if owner is not None and owner.kind == "Job" else None
    if not any(key.startswith(PREFIX) for key in annotations):
        return PLAIN if runs is None else _JOB_RULES
    complaints: list[str] = []
    start = _read_number(annotations, "start-seconds", complaints, 0.0)
    runs = _read_number(annotations, "run-seconds", complaints, runs)
    probability = _read_number(annotations, "failure-probability", complaints, 0.0, maximum=1.0)
    code = _read_number(annotations, "exit-code", complaints, 1.0, maximum=255.0)
    stop = _read_number(annotations, "stop-seconds", complaints, 0.0)
    explicit = any(PREFIX + name in annotations for name in ("run-seconds", "failure-probability", "exit-code"))
    return PodRules(start or 0.0, runs, probability or 0.0, int(code or 1), stop or 0.0, explicit, tuple(complaints))


_ABSENT_TAGS = frozenset({"404", "missing", "nonexistent", "non-existent", "does-not-exist"})


@lru_cache(maxsize=1024)
def is_image_absent(image: str) -> bool:
    """Return whether an image cannot be pulled: by its tag, or by the reserved domain `invalid`.

    >>> is_image_absent("web:404"), is_image_absent("registry.invalid/web"), is_image_absent("web:1")
    (True, True, False)
    """
    repository, _, tag = image.partition("@")[0].rpartition(":")
    if not repository or "/" in tag:
        repository, tag = image.partition("@")[0], ""
    return tag in _ABSENT_TAGS or "invalid" in repository.partition("/")[0].partition(":")[0].split(".")


def _read_number(
    annotations: Mapping[str, str], name: str, complaints: list[str], default: float | None, maximum: float = 1e9
) -> float | None:
    text = annotations.get(PREFIX + name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if 0 <= number <= maximum:
        return number
    complaints.append(f"{PREFIX}{name}: {text!r} is not a number from 0 to {maximum:g}, and is ignored")
    return default


PLAIN = PodRules()
_JOB_RULES = PodRules(run_seconds=_JOB_SECONDS)


_ENDLESS_IMAGES = frozenset({"pause"})
_UNKNOWN_VARIABLES = frozenset({"PATH", "HOME", "PWD", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"})
"""Variables of every container whose values depend on the image or the cluster, so that they are unknown."""
_MOST_VOLUMES, _MOST_PODS, _RUNS_A_POD, _MOST_NAMESPACES = 10_000, 100_000, 4, 1000
STEPS_A_POD = 60_000
"""The maximum number of shell interpreter steps per evaluation of a pod: at most 0.1 s of this process."""
STEPS_A_SECOND = 100_000.0
_MOST_DEBT_SECONDS = STEPS_A_POD / STEPS_A_SECOND + 1
T = TypeVar("T")


class PodRun(msgspec.Struct, frozen=True):
    """One run of a simulated pod's containers: the seconds until all end (None: never), and exit codes."""

    seconds: float | None
    exit_codes: Mapping[str, int] = msgspec.field(default_factory=dict)


class InitFailure(msgspec.Struct, frozen=True):
    """The name and the exit code of an init container that fails."""

    container: str
    exit_code: int


class PodRuns(msgspec.Struct, frozen=True):
    """The runs of one pod: calls `CommandEvaluator` with the pod and its rules."""

    commands: "CommandEvaluator"
    pod: Pod
    rules: PodRules

    def __call__(self, restarts: int, at: datetime) -> PodRun:
        """Return the run of the pod's containers after a number of restarts; `at` is when it starts or started."""
        return self.commands.find_run(self.pod, self.rules, restarts, at)

    def find_init_failure(self, attempt: int, at: datetime) -> InitFailure | None:
        """Return the name and exit code of the init container that fails in a start attempt; None if none fails."""
        return self.commands.find_init_failure(self.pod, self.rules, attempt, at)


class StepsUsedUpError(Exception):
    """The pods of a namespace have used up their interpreter steps; retry after the given seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _CachedRuns(msgspec.Struct):
    runs: dict[int, PodRun | None] = msgspec.field(default_factory=dict)
    inits: dict[int, InitFailure | None] = msgspec.field(default_factory=dict)


class CommandEvaluator:
    """Computes and caches the runs of simulated pods, and keeps the files that their commands write.

    Scripts are evaluated on the event loop. So a pod has `STEPS_A_POD` steps for all of its containers, and the pods of
    a namespace share `STEPS_A_SECOND`: further ones wait, and do not delay other namespaces.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pods: OrderedDict[str, _CachedRuns] = OrderedDict()
        self._volumes: OrderedDict[tuple[str, ...], Store] = OrderedDict()
        self._steps: dict[str, tuple[float, float]] = {}
        """The remaining interpreter steps of each namespace, and when they were last refilled."""

    def find_run(self, pod: Pod, rules: PodRules, restarts: int, now: datetime) -> PodRun:
        """Return a pod's run after a number of restarts, cached or computed. Raise StepsUsedUpError to wait."""
        if rules.is_explicit or not any(_command_line_of(container) for container in pod.spec.containers):
            return self._run_by_rules(pod, rules, restarts)
        runs = self._cached_runs_of(pod).runs
        if restarts not in runs:
            with self._step_budget(pod) as budget:
                _cache_run(runs, restarts, self._compute_run(pod, restarts, now, budget))
        return runs[restarts] or self._run_by_rules(pod, rules, restarts)

    def find_init_failure(self, pod: Pod, rules: PodRules, attempt: int, now: datetime) -> InitFailure | None:
        """Return the first init container whose command fails, as far as known; None if none does.

        Raise StepsUsedUpError if the namespace must wait for more interpreter steps.
        """
        if rules.is_explicit or not any(_command_line_of(container) for container in pod.spec.init_containers):
            return None
        inits = self._cached_runs_of(pod).inits
        if attempt not in inits:
            with self._step_budget(pod) as budget:
                _cache_run(inits, attempt, self._find_init_failure(pod, attempt, now, budget))
        return inits[attempt]

    def _cached_runs_of(self, pod: Pod) -> _CachedRuns:
        found = self._pods.setdefault(pod.metadata.uid, _CachedRuns())
        if len(self._pods) > _MOST_PODS:
            self._pods.popitem(last=False)
        return found

    @contextmanager
    def _step_budget(self, pod: Pod) -> Iterator[Budget]:
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

    def _find_init_failure(self, pod: Pod, attempt: int, now: datetime, budget: Budget) -> InitFailure | None:
        for container in pod.spec.init_containers:
            if _command_line_of(container) and container.restart_policy != "Always":
                outcome = self._execute(pod, container, attempt, now, budget)
                if outcome is not None and outcome.exit_code:
                    return InitFailure(container.name, outcome.exit_code)
        return None

    def forget(self, pod: Pod) -> None:
        """Drop the runs of a deleted pod."""
        uid = pod.metadata.uid
        self._pods.pop(uid, None)
        for volume in pod.spec.volumes:
            self._volumes.pop(("emptyDir", uid, volume.name), None)

    def _run_by_rules(self, pod: Pod, rules: PodRules, restarts: int) -> PodRun:
        endless = not rules.is_explicit and any(_is_endless_image(container) for container in pod.spec.containers)
        code = rules.exit_code_of(pod, restarts)
        codes = {container.name: code for container in pod.spec.containers}
        return PodRun(None if endless else rules.run_seconds, codes)

    def _compute_run(self, pod: Pod, restarts: int, now: datetime, budget: Budget) -> PodRun | None:
        codes: dict[str, int] = {}
        longest: float | None = 0.0
        for container in pod.spec.containers:
            if _is_endless_image(container):
                longest = None
                continue
            found = self._execute(pod, container, restarts, now, budget)
            if found is None:
                return None
            longest = None if found.exit_code is None or longest is None else max(longest, found.seconds)
            codes[container.name] = found.exit_code or 0
        return PodRun(longest, codes)

    def _execute(self, pod: Pod, container: Container, restarts: int, now: datetime, budget: Budget) -> Outcome | None:
        try:
            variables = environment_of(pod, container)
            words = [expand_references(word, variables) for word in _command_line_of(container)]
            seed = f"{pod.metadata.uid}/{container.name}/{restarts}"
            known = variables | dict.fromkeys(_UNKNOWN_VARIABLES - variables.keys())
            return run(words, known, self._build_files(pod, container), began=now.timestamp(), seed=seed, budget=budget)
        except (NotUnderstood, UnknownValueError):
            return None

    def _build_files(self, pod: Pod, container: Container) -> Files:
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


def _cache_run(runs: dict[int, T], number: int, found: T) -> None:
    runs[number] = found
    if len(runs) > _RUNS_A_POD:
        del runs[next(iter(runs))]


def _command_line_of(container: Container) -> list[str]:
    return command_line(container.command, container.args)


def _is_endless_image(container: Container) -> bool:
    image = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return not container.command and image in _ENDLESS_IMAGES
