"""CI output formats for the findings of `mooring lint` and `mooring audit`."""

from collections.abc import Sequence

import click

from mooring.advisor.lint import reports
from mooring.advisor.lint.rules import Report, Rule, Severity

FORMATS = ("sarif", "junit", "github", "markdown")


def print_report(
    report: Report,
    output: str,
    tool: str,
    rules: Sequence[Rule],
    *,
    threshold: Severity | None = Severity.ERROR,
    title: str = "",
) -> None:
    """Print a report of findings in an output format; those as severe as `threshold` or worse count as failures."""
    match output:
        case "sarif":
            click.echo(reports.as_sarif(report, tool, rules))
        case "junit":
            click.echo(reports.as_junit(report, Severity.ERROR if threshold is None else threshold, tool))
        case "github":
            text = reports.as_github(report)
            if text:
                click.echo(text)
        case _:
            click.echo(reports.as_markdown(report, title or tool))
