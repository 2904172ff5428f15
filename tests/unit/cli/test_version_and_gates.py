import json

import click
import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import COMMANDS, mooring


def run(*arguments: str) -> Result:
    return CliRunner().invoke(mooring, arguments)


@pytest.mark.req("4330.1")
@pytest.mark.parametrize("flag", ["--emulation-version", "--emulated-version"])
def test_version_out_of_range_exits_with_2_and_names_the_range(flag: str) -> None:
    result = run("version", flag, "1.30")
    assert result.exit_code == 2
    assert "1.31 to 1.37" in result.output


def test_version_as_json_names_all_three() -> None:
    assert json.loads(run("version", "--emulation-version", "1.35", "-o", "json").output) == {
        "mooring": "0.1.0",
        "binaryVersion": "1.37",
        "emulationVersion": "1.35",
        "minCompatibilityVersion": "1.34",
    }


@pytest.mark.req("4330.9")
def test_version_without_compatibility_versions_names_the_binary_alone() -> None:
    shown = json.loads(run("version", "--feature-gates", "CompatibilityVersions=false", "-o", "json").output)
    assert set(shown) == {"mooring", "binaryVersion"}


@pytest.mark.req("4330.2")
def test_gates_at_1_36_shows_the_three_new_ones_alpha_and_off() -> None:
    shown = {row["name"]: row for row in json.loads(run("gates", "--emulation-version", "1.36", "-o", "json").output)}
    for name in (
        "TaintTolerationComparisonOperators",
        "TolerationAffinitySemverOperators",
        "TaintTolerationNodeAffinityCEL",
    ):
        assert (shown[name]["stage"], shown[name]["default"], shown[name]["enabled"]) == ("Alpha", False, False)


def test_gates_as_a_table_has_a_header_and_a_row_each() -> None:
    lines = run("gates").output.splitlines()
    assert lines[0].split() == ["GATE", "STAGE", "SINCE", "DEFAULT", "LOCKED", "ENABLED"]
    assert "TaintTolerationNodeAffinityCEL                   Beta    1.37    true      false    true" in lines


def test_gates_as_yaml_can_be_read_back() -> None:
    assert "name: CompatibilityVersions" in run("gates", "-o", "yaml").output


def test_the_flag_for_gates_has_a_short_name() -> None:
    assert run("gates", "--gates", "MutablePVNodeAffinity=true", "-o", "json").output == (
        run("gates", "--feature-gates", "MutablePVNodeAffinity=true", "-o", "json").output
    )


def test_a_locked_gate_set_to_its_default_warns_on_stderr() -> None:
    result = run("gates", "--feature-gates", "MatchLabelKeysInPodAffinity=true")
    assert result.exit_code == 0
    assert "Warning: Setting GA feature gate" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_mooring(shell: str) -> None:
    assert "_MOORING_COMPLETE" in run("completion", shell).output


def test_a_typo_in_a_command_says_so() -> None:
    result = run("verison")
    assert result.exit_code == 2
    assert "No such command 'verison'" in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_help(name: str) -> None:
    command = mooring.get_command(click.Context(mooring), name)
    assert command is not None
    assert command.help
    assert [option.name for option in command.params if isinstance(option, click.Option) and not option.help] == []
