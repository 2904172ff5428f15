"""Nodes with GPUs, tasks for them, and the schedulers of examples/fgd."""

from collections.abc import Sequence
from pathlib import Path

from mooring.advisor.simulate.options import Settings
from mooring.api.core_v1 import Node, Pod
from mooring.scheduler.facade import IN_TREE
from mooring.scheduler.framework.registry import from_folder
from mooring.scheduler.running import options
from mooring.testing.builders import node, pod

EXAMPLE = Path(__file__).parents[1] / "examples" / "fgd"
GPU, MODEL = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-card-model"
REGISTRY = {**IN_TREE, **from_folder(EXAMPLE)}


def gpu_node(name: str, cpu: int, cards: int, model: str = "T4") -> Node:
    return node(name, cpu=str(cpu), memory="512Gi", resources={GPU: str(cards * 1000)}, labels={MODEL: model})


def task(name: str, cpu: int, gpu: int, *, on: str = "", models: str = "", priority: int = 0) -> Pod:
    asks = {GPU: str(gpu)} if gpu else {}
    metadata = {"annotations": {MODEL: models}} if models else {}
    return pod(name, cpu=str(cpu), memory="1Gi", requests=asks, on=on, metadata=metadata, priority=priority)


def settings_of(policy: str, workload: Sequence[Pod] = ()) -> Settings:
    profiles = options.read((EXAMPLE / "schedulers" / f"{policy}.yaml").read_bytes()).profiles
    return Settings(profiles=profiles, registry=REGISTRY, workload=workload)
