"""`mooring version`: the three versions of a component started with these flags."""

import click

import mooring
from mooring.base.component import Component
from mooring.base.known_gates import COMPATIBILITY_VERSIONS
from mooring.cli.support.flags import component_flags
from mooring.cli.support.output import output_option, print_data


@click.command()
@component_flags
@output_option("table", "json", "yaml")
def version(running: Component, output: str) -> None:
    """Show the binary, emulation and minimum compatibility version.

    \b
    Examples:
      mooring version
      mooring version --emulation-version 1.36 -o json
    """
    versions = running.versions
    shown = {"mooring": mooring.__version__, "binaryVersion": str(versions.binary)}
    if running.gates.enabled(COMPATIBILITY_VERSIONS):
        shown["emulationVersion"] = str(versions.emulation)
        shown["minCompatibilityVersion"] = str(versions.min_compatibility)
    if output != "table":
        print_data(shown, output)
        return
    names = {
        "mooring": "Mooring",
        "binaryVersion": "Binary version",
        "emulationVersion": "Emulation version",
        "minCompatibilityVersion": "Minimum compatibility version",
    }
    for key, value in shown.items():
        click.echo(f"{names[key]}: {value}")
