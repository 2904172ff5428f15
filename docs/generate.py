"""Write the pages that are made from the code or from results of runs: those in `PAGES`.

A test fails when they are stale. Run `make docs` after changing a command, a flag, a gate or a public name; with an
argument, pages are written to that folder instead.
"""

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import click
from clients_page import page as clients
from conformance_page import page as conformance

from mooring.base.known_gates import KNOWN
from mooring.cli.main import mooring

HERE = Path(__file__).parent


def commands() -> str:
    """Every command with its help text, as `mooring COMMAND --help` prints it."""
    parts = ["# Commands\n\nMade from the code by `make docs`.\n"]
    root = click.Context(
        mooring, info_name="mooring", terminal_width=100, max_content_width=100, help_option_names=["-h", "--help"]
    )
    pending: list[tuple[click.Command, click.Context]] = [(mooring, root)]
    while pending:
        command, context = pending.pop(0)
        parts.append(f"## {context.command_path}\n\n```\n{command.get_help(context)}\n```\n")
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                if child is not None and not child.hidden:
                    inner = click.Context(child, parent=context, info_name=name, terminal_width=100)
                    pending.append((child, inner))
    return "\n".join(parts)


def gates() -> str:
    """Every gate with its history."""
    rows = ["| Gate | What it switches | History |", "|---|---|---|"]
    for gate in KNOWN:
        history = "; ".join(
            f"{spec.since} {spec.stage}, {'on' if spec.default else 'off'}"
            + (", locked" if spec.locked else "")
            + (f", needs minimum compatibility {spec.min_compatibility}" if spec.min_compatibility else "")
            for spec in gate.history
        )
        needs = f" Needs {', '.join(gate.needs)}." if gate.needs else ""
        rows.append(f"| `{gate.name}` | {gate.about}.{needs} | {history} |")
    table = "\n".join(rows)
    return f"""# Feature gates

Made from the code by `make docs`. `mooring gates --emulation-version V` shows the same for one version.

- A gate is what it was at the emulated version; before its first entry it does not exist and cannot be set.
- An alpha gate cannot be switched on while the emulation version is below the binary version.
- A locked gate can only be set to its default, with a warning; a removed or unknown gate is refused.
- Where a minimum compatibility version is named, the gate's default is off below it.
- `AllAlpha` and `AllBeta` switch all gates of that stage that are not named themselves.

{table}
"""


PUBLIC = {
    "mooring.cel": "A CEL engine with types and costs ([cel.md](cel.md))",
    "mooring.client": "A typed client, informers and what controllers are built from ([client.md](client.md))",
    "mooring.testing": "A control plane, builders and a clock for tests ([testing.md](testing.md))",
    "mooring.scheduler.framework": "What a scheduler plugin is made of ([scheduler-plugins.md](scheduler-plugins.md))",
    "mooring.advisor.snapshot": "The objects of a cluster at one moment",
    "mooring.advisor.explain": "Why a pod is pending ([explain.md](explain.md))",
    "mooring.advisor.simulate": "What would happen if ([simulate.md](simulate.md))",
    "mooring.advisor.audit": "What breaks ([audit.md](audit.md))",
    "mooring.advisor.lint": "Whether a manifest is right ([lint.md](lint.md))",
}
"""The packages whose names others may rely on."""


def api() -> str:
    """Every public name with the first sentence of what it says of itself."""
    parts = []
    for name, about in PUBLIC.items():
        package = import_module(name)
        rows = [f"| `{each}` | {_first_sentence(getattr(package, each))} |" for each in sorted(package.__all__)]
        parts.append("\n".join([f"## `{name}`", "", f"{about}.", "", "| Name | |", "|---|---|", *rows]))
    listed = "\n\n".join(parts)
    return f"""# Python interfaces

Made from the code by `make docs`. These names, the commands with their flags, exit codes and `-o json`, and
`/apis/advisor.mooring.dev/v1` are what others may build on. They follow [semantic versioning](https://semver.org):
from 1.0 on, a name that is here goes only with a new major version, after a minor one in which it warns; until then a
minor version may change them, and [CHANGELOG.md](../CHANGELOG.md) says so. The typed objects of `mooring.api` follow
Kubernetes' own API. Everything else may change at any time.

{listed}
"""


def _first_sentence(value: object) -> str:
    if isinstance(value, type) or callable(value):
        text = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
        if text and not text.startswith(f"{getattr(value, '__name__', '')}("):  # what dataclasses make up says nothing
            return re.split(r"\. (?=[A-Z`])", text)[0].rstrip(".").replace("|", "\\|")
    return ""


PAGES = {
    "api.md": api,
    "clients.md": clients,
    "commands.md": commands,
    "conformance.md": conformance,
    "gates.md": gates,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for page, make in PAGES.items():
        (folder / page).write_text(make())
