"""Write the pages that are made from the code, `commands.md` and `gates.md`. A test fails when they are stale.

Run `make docs` after changing a command, a flag or a gate; with an argument, pages are written to that folder instead.
"""

import sys
from pathlib import Path

import click

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


PAGES = {"commands.md": commands, "gates.md": gates}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for page, make in PAGES.items():
        (folder / page).write_text(make())
