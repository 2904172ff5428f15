"""`mooring mcp`: read-only tools for agents, by the Model Context Protocol over standard input and output.

Each tool runs the command for the same question in a process of its own, with a deadline, and shortens its output
(``support/agent_answers.py``). So agents and people get the same answer, and a question that takes too long ends
without the server. Arguments are passed as `--flag=VALUE` or after `--`, so that the command never reads one as another
flag.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from mooring import __version__
from mooring.cli.support import agent_answers
from mooring.cli.support.agent_answers import Explanation, Findings, NodeMatch, Overview, Reason, SimulationAnswer
from mooring.cli.support.cluster_source import ClusterSource, cluster_source

if TYPE_CHECKING:
    from mcp.server import MCPServer

_SECONDS = 120.0
_MAX_MANIFEST = 1_000_000
_MAX_ARGUMENT = 10_000
"""The maximum length of other arguments in characters; Kubernetes allows CEL expressions of this length."""
_INSTRUCTIONS = """\
Read-only questions about scheduling in one Kubernetes cluster. Start with pending_overview. Every remedy was verified
on the scheduler's own engine: after it, the pod would be scheduled. Nothing here changes the cluster: show the commands
of a remedy to the user before you run any."""


@click.command()
@cluster_source
def mcp(*, source: ClusterSource) -> None:
    """Serve read-only tools for agents: explain, simulate, audit, lint (Model Context Protocol over stdio).

    For a live cluster (Mooring or any Kubernetes), a dump or a data directory. An agent starts it, and talks to it on
    standard input and output; docs/agents.md has the settings of common clients. Needs the extra `kube-mooring[mcp]`.

    \b
    Examples:
      mooring mcp
      mooring mcp --context production
      mooring mcp --from cluster.yaml
    """
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise click.ClickException("this needs the MCP SDK: pip install 'kube-mooring[mcp]'") from error
    _ = source.origin  # fails with a sentence if there is no such cluster
    server = MCPServer("mooring", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
    add_tools(server, _Questions(source))
    server.run("stdio")


class _Questions(msgspec.Struct, frozen=True):
    """Answers questions of the MCP tools about one cluster, by running commands of `mooring`."""

    source: ClusterSource

    @property
    def flags(self) -> list[str]:
        """The command-line flags that select the cluster, such as `--context production`."""
        source = self.source
        if source.files:
            return [word for file in source.files for word in ("--from", str(file))]
        if source.data_dir is not None:
            return ["--data-dir", str(source.data_dir)]
        named = (("--kubeconfig", source.kubeconfig), ("--context", source.context))
        return [word for flag, value in named if value for word in (flag, value)]

    async def ask(
        self, words: Sequence[str], stdin: str = "", *, about: Sequence[str] = (), codes: Sequence[int] = (0,)
    ) -> Any:
        """Run `mooring WORDS -o json -- ABOUT`; return the parsed output. Raise `ToolError` for other exit `codes`."""
        from mcp.server.mcpserver.exceptions import ToolError

        _check_length("the manifest", stdin, _MAX_MANIFEST)
        for word in (*words, *about):
            _check_length("an argument", word, _MAX_ARGUMENT)
            if "\0" in word:
                raise ToolError("an argument contains a null character")
        command = [sys.executable, "-m", "mooring", *words, "--output=json", "--", *about]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            async with asyncio.timeout(_SECONDS):
                out, err = await process.communicate(stdin.encode())
        except TimeoutError as error:
            raise ToolError(f"no answer within {_SECONDS:g} seconds: ask about fewer objects") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode not in codes or not out:
            raise ToolError(agent_answers.cut(err.decode(errors="replace").rpartition("Error: ")[2].strip()))
        return agent_answers.cut_strings(json.loads(out))

    def matching(self, expression: str) -> NodeMatch:
        """Return the nodes on which a CEL expression holds, and why not on others. Raise `ToolError` for a bad one."""
        from mcp.server.mcpserver.exceptions import ToolError

        from mooring.advisor.expressions import evaluate_on_nodes, find_objections
        from mooring.api.core_v1 import Node
        from mooring.base.version import BINARY
        from mooring.constraints.celenv import NODE

        _check_length("the expression", expression, _MAX_ARGUMENT)
        program = NODE.new_expressions(BINARY.minus(1)).compile(expression)
        if problems := [str(issue) for issue in program.issues] or list(find_objections(program)):
            raise ToolError(agent_answers.cut("; ".join(problems)))
        try:
            nodes = self.source.read((Node,), raw=False, quiet=True).all(Node)
        except click.ClickException as error:
            raise ToolError(error.message) from error
        outcomes = evaluate_on_nodes(program, nodes)
        names = [name for each in outcomes if each.matches for name in each.names]
        others = [Reason("", each.count, agent_answers.cut(each.why)) for each in outcomes if not each.matches]
        matching = [agent_answers.cut(name) for name in names[: agent_answers.MAX_NAMES]]
        return NodeMatch(len(nodes), len(names), matching, others[: agent_answers.MAX_REASONS])


def _check_length(what: str, text: str, limit: int) -> None:
    """Raise `ToolError` if a string is longer than `limit`; the message calls it `what`."""
    from mcp.server.mcpserver.exceptions import ToolError

    if len(text) > limit:
        raise ToolError(f"{what} has {len(text)} characters; the limit is {limit}")


def add_tools(server: "MCPServer[Any]", questions: _Questions) -> None:
    """Register the tools at an MCP server. Agents read the docstrings of the functions in it."""
    from mcp.types import ToolAnnotations

    tool = server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True))

    async def pending_overview(namespace: str = "") -> Overview:
        """Explain everything that does not run, grouped by cause, worst first, each with its first verified remedy.

        namespace: all of them, if empty.
        """
        where = f"--namespace={namespace}" if namespace else "--all-namespaces"
        return agent_answers.overview(await questions.ask(["explain", where, *questions.flags]))

    async def explain_pod(name: str, namespace: str = "default", kind: str = "pod") -> Explanation:
        """Explain why a pod or workload is pending or where it runs, with verified remedies.

        kind: pod, deployment, statefulset, daemonset, replicaset, job or cronjob.
        """
        return agent_answers.explanation(
            await questions.ask(["explain", *questions.flags], about=(kind, f"{namespace}/{name}"))
        )

    async def explain_manifest(manifest: str, namespace: str = "default") -> Explanation:
        """Explain whether a pod or workload that is not in the cluster yet would be scheduled; YAML or JSON."""
        words = ["explain", "--filename=-", f"--namespace={namespace}", *questions.flags]
        return agent_answers.explanation(await questions.ask(words, manifest))

    async def simulate(
        add_manifest: str = "", replicas: int = 0, drain: str = "", remove_nodes: str = "", add_nodes: int = 0
    ) -> SimulationAnswer:
        """Simulate changes without making them: nodes are added, then drained or removed, then the manifest is created.

        drain, remove_nodes: names of nodes with commas, * for any letters. replicas: overrides those of the manifest.
        """
        given = (
            ("add-nodes", add_nodes),
            ("drain", drain),
            ("remove-node", remove_nodes),
            ("add", add_manifest and "-"),
        )
        words = [f"--{flag}={value}" for flag, value in given if value]
        words += [f"--replicas={replicas}"] if replicas and add_manifest else []
        return agent_answers.simulation(await questions.ask(["simulate", *words, *questions.flags], add_manifest))

    async def audit_upgrade(to_version: str, from_version: str = "") -> Findings:
        """Audit what breaks between two releases of Kubernetes, up or down, such as 1.33 and 1.36.

        from_version: what the cluster runs now, if empty.
        """
        start = [f"--from-version={from_version}"] if from_version else []
        words = ["audit", *start, f"--to-version={to_version}", "--fail-if=never", *questions.flags]
        return agent_answers.findings((await questions.ask(words))["findings"])

    async def lint(manifest: str, kubernetes_version: str = "") -> Findings:
        """Lint manifests (YAML or JSON) as an API server would validate them; kubernetes_version such as 1.34."""
        version = [f"--kubernetes={kubernetes_version}"] if kubernetes_version else []
        found = await questions.ask(["lint", *version], manifest, about=("-",), codes=(0, 1))
        return agent_answers.findings(found["findings"])

    async def nodes_matching(expression: str) -> NodeMatch:
        """List the nodes on which a CEL expression over `node.labels` holds, and why not on the others.

        Example: "'kernel' in node.labels && semver(node.labels['kernel']).isGreaterThan(semver('6.0.0'))"
        """
        return await asyncio.to_thread(questions.matching, expression)

    for each in (pending_overview, explain_pod, explain_manifest, simulate, audit_upgrade, lint, nodes_matching):
        tool(each)
