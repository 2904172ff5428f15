"""`mooring demo`: the five proposals in two minutes, on throw-away control planes. See ``support/demo_guide.py``."""

import asyncio
import tempfile
import time
from pathlib import Path

import click

import mooring
from mooring.base import logs
from mooring.cli.support.demo_guide import ANYWHERE, NOWHERE, DemoError, Guide
from mooring.cli.support.output import report_errors

_PAUSE_SECONDS = 4.0
_GATE = "TaintTolerationComparisonOperators"


@click.command()
@click.option("--fast", is_flag=True, help="Do not pause between the steps.")
@click.option("-v", "--verbose", count=True, help="Show the logs of the control planes.")
def demo(*, fast: bool, verbose: int) -> None:
    """Show what Mooring can do: five Kubernetes proposals in two minutes.

    It runs control planes of its own in a temporary directory and leaves nothing behind.

    \b
    Examples:
      mooring demo
      mooring demo --fast
    """
    logs.configure(verbose)
    if not verbose:
        logs.get("mooring").setLevel("ERROR")  # the demo itself reports deliberate errors
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mooring-demo-") as folder:
        guide = Guide(_find_examples(), Path(folder), 0.0 if fast else _PAUSE_SECONDS)
        with report_errors(DemoError):
            asyncio.run(_play(guide))
    click.echo(f"\nThat took {time.monotonic() - began:.0f} s. Now try `mooring up --nodes 5`, with kubectl beside it.")


def _find_examples() -> Path:
    package = Path(mooring.__file__).parent
    inside = package / "examples"
    return inside if inside.is_dir() else package.parents[1] / "examples"


async def _play(guide: Guide) -> None:
    for act in (_show_numbers, _show_versions, _show_expressions, _show_label_keys, _show_rollback):
        await act(guide)


async def _show_numbers(guide: Guide) -> None:
    guide.title("1  Numbers in tolerations (KEP-5471)")
    await guide.say("Nodes say how reliable they are in a taint. Pods say what they accept: greater than 750, 950, …")
    async with guide.control_plane("numbers"):
        await guide.apply("kep-5471/1-spot-nodes", "nodes", "story")
        await guide.show_nodes()
        placed = {"cost-optimized": "spot-node-1", "flexible-sla": "reserved-node-1"}
        await guide.show_pods({**placed, "critical": NOWHERE})
        await guide.say("The critical one waits for a node above 950. Here it comes:")
        await guide.apply("kep-5471/1-spot-nodes", "later")
        await guide.show_pods({**placed, "critical": "reliable-node-1"})

    await guide.say("A NoExecute taint also evicts. This service wants more than 950, and its node has 960.")
    async with guide.control_plane("eviction"):
        await _start_steady_service(guide)
        await guide.say("Now the rating of the node drops:")
        await guide.taint("ondemand-node-1", "node.kubernetes.io/sla", "940", "NoExecute")
        await guide.show_pods({"steady-service": NOWHERE})
        await guide.say("The pod was evicted at once; the one that replaces it waits, and says why.")


async def _show_versions(guide: Guide) -> None:
    guide.title("2  Versions in node affinity (KEP-5721)")
    await guide.say("Labels hold versions. SemverGt compares them as versions: v1.9.0 is older than v1.31.99.")
    async with guide.control_plane("versions"):
        await guide.apply("kep-5721/1-kubelet-version", "nodes", "story")
        await guide.show_nodes()
        await guide.show_pods({"modern-app": "upgraded-node"})


async def _show_expressions(guide: Guide) -> None:
    guide.title("3  Expressions in tolerations and node affinity (KEP-5500)")
    await guide.say("One CEL expression says `this key with either of two values`, which plain tolerations cannot.")
    async with guide.control_plane("expressions"):
        await guide.apply("kep-5500/1-either-maintenance", "nodes", "story")
        await guide.show_nodes()
        await guide.show_pods({"monitoring-agent": ANYWHERE, "second-monitoring-agent": ANYWHERE})
        await guide.say("Both nodes under maintenance have an agent; the one that is decommissioned has none.")


async def _show_label_keys(guide: Guide) -> None:
    guide.title("4  Affinity to pods of the same revision (KEP-3633)")
    await guide.say("Two zones, each with room for one revision. The replicas of a revision want to be in one zone.")
    async with guide.control_plane("label-keys"):
        await guide.apply("kep-3633/1-affinity-within-a-revision", "nodes", "story")
        pods = await guide.show_pods({"application-server": ANYWHERE}, count=2)
        await guide.say("A new revision is spread independently of the old one: matchLabelKeys separates them.")
        await guide.set_image("application-server", "server", "server:2.0")
        other = {"zone-a-node": "zone-b-node", "zone-b-node": "zone-a-node"}[pods[0].spec.node_name]
        await guide.show_pods({"application-server": other}, count=2)


async def _show_rollback(guide: Guide) -> None:
    guide.title("5  Going back (KEP-4330)")
    await guide.say("The service again, with its data on disk. What if its feature gate is switched off?")
    async with guide.control_plane("rollback"):
        await _start_steady_service(guide)
    async with guide.control_plane("rollback", feature_gates=f"{_GATE}=false"):
        await guide.show_failed_creates("steady-service")
        await guide.say(
            "Without the gate no toleration matches by number: the pod is evicted, and no new one is accepted. "
            "So change workloads first, then the gate. With the gate on again, the service recovers by itself:"
        )
    async with guide.control_plane("rollback"):
        await guide.show_pods({"steady-service": "ondemand-node-1"})
    await guide.say(
        "And this is what Mooring says to a manifest that uses three of the proposals while it emulates 1.34:"
    )
    async with guide.control_plane("older", emulation_version="1.34"):
        await guide.is_refused("tour/web.yaml")


async def _start_steady_service(guide: Guide) -> None:
    await guide.apply("kep-5471/2-evict-when-sla-drops", "nodes", "negative")
    await guide.taint("ondemand-node-1", "node.kubernetes.io/sla", "960", "NoExecute")
    await guide.show_pods({"steady-service": "ondemand-node-1"})
