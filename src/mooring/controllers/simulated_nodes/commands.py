"""What the containers of a simulated pod do, as far as their command tells: ``mooring.shell`` works it out.

A run of a pod is worked out once, when it starts: how long each container takes, and how it ends. Files in `emptyDir`,
`hostPath` and claims are shared and stay as long as they would; they are in memory alone, so that a restart of the
controllers forgets them. Where a command is not understood, the rules of ``rules.py`` hold. Called by ``pods.py``.
"""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime

import msgspec

from mooring.api.core_v1 import Container, Pod
from mooring.api.environment import UnknownValueError, environment_of, with_references
from mooring.controllers.simulated_nodes.rules import PodRules
from mooring.shell import Files, NotUnderstood, Outcome, command_line, run
from mooring.shell.files import Store

_ENDLESS_IMAGES = frozenset({"pause"})
"""Images that do nothing until they are stopped."""
_NOT_KNOWN = frozenset({"PATH", "HOME", "PWD", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"})
"""Variables that every container has, and whose values depend on the image or the cluster."""
_MOST_VOLUMES, _MOST_RUNS = 10_000, 100_000


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


class Commands:
    """The runs of all pods, and the files that they leave."""

    def __init__(self) -> None:
        self._inits: OrderedDict[tuple[str, int], Failure | None] = OrderedDict()
        self._runs: OrderedDict[tuple[str, int], Run | None] = OrderedDict()
        self._volumes: OrderedDict[tuple[str, ...], Store] = OrderedDict()

    def run_of(self, pod: Pod, rules: PodRules, restarts: int, now: datetime) -> Run:
        """How a run goes that starts now, or has started: the same whenever it is asked."""
        if rules.is_explicit or not any(_words(container) for container in pod.spec.containers):
            return self._by_rules(pod, rules, restarts)
        key = (pod.metadata.uid, restarts)
        if key not in self._runs:
            self._runs[key] = self._worked_out(pod, restarts, now)
            if len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
        return self._runs[key] or self._by_rules(pod, rules, restarts)

    def failed_init(self, pod: Pod, rules: PodRules, attempt: int, now: datetime) -> Failure | None:
        """The first init container whose command fails; what is not understood does its work."""
        if rules.is_explicit or not any(_words(container) for container in pod.spec.init_containers):
            return None
        key = (pod.metadata.uid, attempt)
        if key not in self._inits:
            self._inits[key] = self._first_failure(pod, attempt, now)
            if len(self._inits) > _MOST_RUNS:
                self._inits.popitem(last=False)
        return self._inits[key]

    def _first_failure(self, pod: Pod, attempt: int, now: datetime) -> Failure | None:
        for container in pod.spec.init_containers:
            if _words(container) and container.restart_policy != "Always":
                outcome = self._outcome(pod, container, attempt, now)
                if outcome is not None and outcome.exit_code:
                    return Failure(container.name, outcome.exit_code)
        return None

    def forget(self, pod: Pod) -> None:
        """The pod is gone, and with it what only it has."""
        uid = pod.metadata.uid
        for restarts in range(_restarts(pod) + 2):
            self._runs.pop((uid, restarts), None)
            self._inits.pop((uid, restarts), None)
        for volume in pod.spec.volumes:
            self._volumes.pop(("emptyDir", uid, volume.name), None)

    def _by_rules(self, pod: Pod, rules: PodRules, restarts: int) -> Run:
        endless = not rules.is_explicit and any(_is_endless(container) for container in pod.spec.containers)
        code = rules.exit_of(pod, restarts)
        codes = {container.name: code for container in pod.spec.containers}
        return Run(None if endless else rules.run_seconds, codes)

    def _worked_out(self, pod: Pod, restarts: int, now: datetime) -> Run | None:
        """The run as the commands say; None if one of them is not understood."""
        codes: dict[str, int] = {}
        longest: float | None = 0.0
        for container in pod.spec.containers:
            if _is_endless(container):
                longest = None
                continue
            found = self._outcome(pod, container, restarts, now)
            if found is None:
                return None
            longest = None if found.exit_code is None or longest is None else max(longest, found.seconds)
            codes[container.name] = found.exit_code or 0
        return Run(longest, codes)

    def _outcome(self, pod: Pod, container: Container, restarts: int, now: datetime) -> Outcome | None:
        """What a container's command comes to; None if it is not understood."""
        try:
            variables = environment_of(pod, container)
            words = [with_references(word, variables) for word in _words(container)]
            seed = f"{pod.metadata.uid}/{container.name}/{restarts}"
            known = variables | dict.fromkeys(_NOT_KNOWN - variables.keys())
            return run(words, known, self._files(pod, container), began=now.timestamp(), seed=seed)
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


def _restarts(pod: Pod) -> int:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return max((status.restart_count for status in statuses), default=0)


def _words(container: Container) -> list[str]:
    return command_line(container.command, container.args)


def _is_endless(container: Container) -> bool:
    image = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return not container.command and image in _ENDLESS_IMAGES
