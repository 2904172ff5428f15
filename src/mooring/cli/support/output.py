"""Output of commands: tables for people, JSON and YAML for scripts."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from mooring.cli import PLUGIN

Command = TypeVar("Command", bound=Callable[..., None])


class _Format(click.Choice[str]):
    """The name of a format. The human format is called `table`; `text` is accepted too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert("table" if value == "text" else value, param, ctx)


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Add `-o`, with the first format as the default."""
    return click.option(
        "-o", "--output", type=_Format(formats), default=formats[0], show_default=True, help="The output format."
    )


def name_as_called(text: str) -> str:
    """Name the commands in a text (`mooring explain …` in backquotes) as this program was called: by kubectl or not."""
    context = click.get_current_context(silent=True)
    is_plugin = context is not None and context.find_root().info_name == PLUGIN
    return text.replace("`mooring ", f"`{PLUGIN} ") if is_plugin else text


def print_data(data: Any, output: str) -> None:
    """Print plain data as JSON or YAML."""
    if output == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns as kubectl does: padded, with a bold header on a terminal."""
    widths = [max(len(click.unstyle(row[i])) for row in (header, *rows)) for i in range(len(header))]
    for number, row in enumerate((header, *rows)):
        cells = (cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True))
        line = "   ".join(cells).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


_TONES = {"bad": {"fg": "red"}, "good": {"fg": "green"}, "title": {"bold": True}, "quiet": {"dim": True}}


def paint(text: str, tone: str) -> str:
    """Color a text of a report, where the output is a terminal."""
    return click.style(text, **_TONES[tone])  # type: ignore[arg-type] # click takes them by name


def write_page(html: str, path: Path) -> None:
    """Write a report in HTML, and say on standard error where it is."""
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as problem:
        raise click.ClickException(f"{path}: {problem.strerror}") from problem
    click.echo(f"The report is in {click.format_filename(path)}", err=True)
