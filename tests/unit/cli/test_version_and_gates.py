import json
import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import COMMANDS, mooring


def run(*arguments: str) -> Result:
    return CliRunner().invoke(mooring, arguments)


@pytest.mark.req("4330.1")
@pytest.mark.parametrize("flag", ["--emulation-version", "--emulated-version"])
def test_version_out_of_range_exits_with_2_and_names_the_range(flag: str) -> None:
    result = run("version", flag, "1.26")
    assert result.exit_code == 2
    assert "1.27 to 1.37" in result.output


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
    assert lines[0].split() == ["GATE", "STAGE", "SINCE", "DEFAULT", "LOCKED", "ENABLED", "KUBERNETES"]
    row = "TaintTolerationNodeAffinityCEL                   Beta    1.37    true      false    true      in no release"
    assert row in lines


@pytest.mark.req("U.4")
def test_gates_say_what_the_release_of_kubernetes_has() -> None:
    shown = {row["name"]: row["kubernetes"] for row in json.loads(run("gates", "-o", "json").output)}
    assert shown["TolerationAffinitySemverOperators"] == "in no release"
    assert shown["TaintTolerationComparisonOperators"] == "Alpha, off"
    assert shown["PodLevelResources"] == "same"


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verison"], "there is no command 'verison'; did you mean version?"),
        (["xyzzy"], "there is no command 'xyzzy'; `mooring --help` lists them"),
        (["gates", "--emulatoin-version", "1.36"], "'--emulation-version'"),
        (
            ["gates", "--feature-gates", "TaintTolerationCEL=true"],
            "unrecognized feature gate: TaintTolerationCEL: did you mean TaintTolerationNodeAffinityCEL?",
        ),
    ],
    ids=["a command", "a command like no other", "a flag", "a gate"],
)
def test_a_typo_is_answered_with_what_was_meant(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_the_version_can_be_asked_for_as_a_flag() -> None:
    assert run("--version").output == "mooring 0.1.0\n"


def test_help_lists_every_command_without_loading_any() -> None:
    program = "import sys; from mooring.cli.main import mooring; mooring(['--help'], standalone_mode=False);"
    program += "print(sorted(name for name in sys.modules if name.startswith('mooring.')))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert [name for name in COMMANDS if f"  {name} " not in shown] == []
    assert shown.endswith("['mooring.cli', 'mooring.cli.main']\n")


def test_the_second_process_of_a_control_plane_loads_no_rules_of_admission_and_no_cryptography() -> None:
    """They take 12 MB of its memory and a fifth of its start."""
    program = "import sys; import mooring.cli.support.workers, mooring.cli.support.worker_process;"
    program += "print(sorted({'cryptography', 'mooring.admission.pod.spec'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


@pytest.mark.parametrize(("value", "is_coloured"), [("", True), ("1", False)])
def test_no_color_is_honoured_on_a_terminal(value: str, is_coloured: bool) -> None:
    main_end, command_end = os.openpty()
    with os.fdopen(command_end, "wb") as terminal:
        subprocess.run(
            [sys.executable, "-m", "mooring", "gates"],
            check=True,
            stdout=terminal,
            env={**os.environ, "NO_COLOR": value},
        )
    assert (b"\x1b[" in os.read(main_end, 65536)) == is_coloured
    os.close(main_end)


@pytest.mark.parametrize("word", ["table", "text"])
def test_what_is_for_people_has_two_names(word: str) -> None:
    assert run("gates", "-o", word).output.startswith("GATE")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_help(name: str) -> None:
    command = mooring.get_command(click.Context(mooring), name)
    assert command is not None
    assert command.help
    assert [option.name for option in command.params if isinstance(option, click.Option) and not option.help] == []


@pytest.mark.req("4330.1")
@pytest.mark.parametrize("flags", [("--emulation-version", "--emulated-version"), ("--min-compatibility-version",) * 2])
def test_a_version_given_twice_is_refused(flags: tuple[str, str]) -> None:
    done = run("version", flags[0], "1.36", flags[1], "1.35")
    assert done.exit_code == 2
    assert f"{flags[0]} is given twice, as 1.36 and 1.35" in done.output


@pytest.mark.req("4330.2")
def test_gates_given_in_several_flags_all_count() -> None:
    flags = ("--feature-gates", "PodLevelResources=false", "--feature-gates", "StorageCapacityScoring=false")
    shown = {row["name"]: row["enabled"] for row in json.loads(run("gates", *flags, "-o", "json").output)}
    assert (shown["PodLevelResources"], shown["StorageCapacityScoring"]) == (False, False)
