"""Output of commands: tables for people, JSON and YAML for scripts."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import yaml

from mooring.cli import PLUGIN

Command = TypeVar("Command", bound=Callable[..., None])


class _Format(click.Choice[str]):
    """The type of `-o`: one of a command's output formats; `text` is accepted as another name of `table`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert("table" if value == "text" else value, param, ctx)


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Return a decorator that adds `-o` to a command; the first format is the default."""
    return click.option(
        "-o", "--output", type=_Format(formats), default=formats[0], show_default=True, help="The output format."
    )


def name_as_called(text: str) -> str:
    """Return a text with `mooring …` in backquotes replaced by `kubectl mooring …` if kubectl called this program."""
    context = click.get_current_context(silent=True)
    is_plugin = context is not None and context.find_root().info_name == PLUGIN
    return text.replace("`mooring ", f"`{PLUGIN} ") if is_plugin else text


def print_data(data: Any, output: str) -> None:
    """Print plain data as JSON or YAML."""
    if output == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


def print_result(result: Any, output: str) -> bool:
    """Print a struct that may be large as JSON or YAML; return False for another output format."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
    elif output == "yaml":
        print_data(msgspec.to_builtins(result, str_keys=True), output)
    return output in ("json", "yaml")


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


_TONES: dict[str, dict[str, Any]] = {
    "bad": {"fg": "red"},
    "command": {"fg": "cyan"},
    "good": {"fg": "green"},
    "quiet": {"dim": True},
    "title": {"bold": True},
}


def paint(text: str, tone: str) -> str:
    """Return a text in the color of a tone, such as `bad` or `title`, for a terminal."""
    return click.style(text, **_TONES[tone])


@contextmanager
def report_errors(*kinds: type[Exception], prefix: str = "", usage: bool = False) -> Iterator[None]:
    """Raise exceptions of these kinds as `ClickException` with their text; with `usage`, as `UsageError`."""
    try:
        yield
    except kinds as error:
        raise (click.UsageError if usage else click.ClickException)(f"{prefix}{error}") from error


def write_page(html: str, path: Path) -> None:
    """Write an HTML report to a file, and print its path on standard error."""
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as problem:
        raise click.ClickException(f"{path}: {problem.strerror}") from problem
    click.echo(f"The report is in {click.format_filename(path)}", err=True)
