"""What all pods that run programs share."""

from dataclasses import dataclass
from pathlib import Path

from mooring.api.core_v1 import Pod
from mooring.api.program_folders import pod_folder
from mooring.base.clock import Clock
from mooring.client import Client, EventRecorder
from mooring.client.kubeconfig import load
from mooring.controllers.programs.file import Programs
from mooring.controllers.programs.network import Networks
from mooring.controllers.programs.volumes import FromServer


@dataclass
class SharedState:
    """Constructed by ``pods.py``."""

    programs: Programs
    client: Client
    recorder: EventRecorder
    source: FromServer
    networks: Networks

    @property
    def clock(self) -> Clock:
        return self.client.clock

    def pod_folder(self, pod: Pod) -> Path:
        return pod_folder(self.programs.folder, pod.metadata.uid)

    def server(self) -> str:
        """Return the API server's URL from its kubeconfig; for other networks with this machine's address."""
        url = load(self.programs.kubeconfig).server
        return url.replace("//127.0.0.1:", f"//{self.programs.address}:") if self.programs.own_networks else url

    def event(self, pod: Pod, kind: str, reason: str, note: str) -> None:
        self.recorder.event(pod, "Warning" if kind == "Warning" else "Normal", reason, note)
