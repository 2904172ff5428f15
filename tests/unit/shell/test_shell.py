"""What scripts come to: their words, their way through commands, their time and their files."""

import gzip
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.shell import Files, NotUnderstood, Outcome, bytes_of, command_line, run

pytestmark = pytest.mark.req("S.4")


def sh(script: str, files: Files | None = None, **variables: str | None) -> Outcome:
    return run(["/bin/sh", "-c", script], variables, files)


PRINTED = [
    ("blanks between words are one, those in quotes stay", "echo a   b 'c   d' \"e   f\"", "a b c   d e   f\n"),
    ("single quotes keep everything", "x=1; echo '$x \"`'", '$x "`\n'),
    ("double quotes let variables through", 'x=1; echo "$x \\$x ${x}y"', "1 $x 1y\n"),
    ("a variable without quotes falls apart", "x='a   b'; echo $x; echo \"$x\"", "a b\na   b\n"),
    (
        "an empty variable is no word unless quoted",
        'for i in a $none "$none" b; do echo "<$i>"; done',
        "<a>\n<>\n<b>\n",
    ),
    ("a default stands for what is empty", "echo ${none:-else} ${none:-$(echo run)}", "else run\n"),
    ("what a script prints is put in", 'echo "$(echo a; echo b)" `echo c`', "a\nb c\n"),
    ("sums", "i=5; echo $((i * (2 + 3) - 1)) $((7 / 2)) $((-7 / 2)) $((-7 % 3)) $((2 < 3 && !0))", "24 3 -3 -1 1\n"),
    ("expr", "expr 7 % 2; expr 3 + 4; expr a = a", "1\n7\n1\n"),
    ("and, or, not", "true && echo a || echo b; false && echo c || echo d; ! true || echo e", "a\nd\ne\n"),
    ("the last status", "false; echo $?; (exit 7); echo $?", "1\n7\n"),
    (
        "if, elif, else",
        "for i in 1 2 3; do if [ $i = 1 ]; then echo a; elif test $i -eq 2; then echo b; else echo c; fi; done",
        "a\nb\nc\n",
    ),
    (
        "while with break and continue",
        "i=0; while :; do i=$((i+1)); [ $i -eq 2 ] && continue; [ $i -gt 3 ] && break; echo $i; done",
        "1\n3\n",
    ),
    ("until", "i=0; until [ $i -ge 2 ]; do echo $i; i=$(expr $i + 1); done", "0\n1\n"),
    ("pipes", "printf 'a\\nb\\nc\\n' | grep -v b | cat", "a\nc\n"),
    ("a group in brackets keeps its variables", "x=1; (x=2; echo $x); { x=3; }; echo $x", "2\n3\n"),
    ("comments and lines that go on", "echo a # b\necho c \\\n  d", "a\nc d\n"),
    ("printf takes its arguments in turn", "printf '%s=%d\\n' a 1 b 2", "a=1\nb=2\n"),
    ("arguments of the script", "echo $# $1 $0", "0 sh\n"),
    (
        "output to a file and back",
        "echo a > /tmp/f; echo b >> /tmp/f; cat < /tmp/f; cat /tmp/f | grep -q b && echo yes",
        "a\nb\nyes\n",
    ),
    (
        "the directories of every image, and what the script adds",
        "mkdir /data; ls /",
        "".join(
            f"{name}\n"
            for name in ["bin", "data", "dev", "etc", "home", "lib", "proc", "root", "sys", "tmp", "usr", "var"]
        ),
    ),
    ("how long the machine runs", "uptime", " 00:00:00 up 0 min,  load average: 0.00, 0.00, 0.00\n"),
    ("no date", "date foo 2>&1 || echo $?", "date: invalid date 'foo'\n1\n"),
    ("output to nowhere", "echo a > /dev/null; echo b 2>&1", "b\n"),
]


@pytest.mark.parametrize(("script", "text"), [case[1:] for case in PRINTED], ids=[case[0] for case in PRINTED])
def test_what_a_script_prints(script: str, text: str) -> None:
    assert sh(script).text == text


ENDS = [
    ("without a word", "", 0, 0.0),
    ("with a code", "exit 42", 42, 0.0),
    ("with the last status", "false; exit", 1, 0.0),
    ("after a while", "sleep 1.5; sleep 2m; exit 3", 3, 121.5),
    ("in the middle of loops", "for i in 1 2 3; do sleep 1; [ $i = 2 ] && exit 9; done", 9, 2.0),
    ("in another program's place", "exec sleep 5", 0, 5.0),
    ("never, for it sleeps", "sleep infinity", None, float("inf")),
    ("with what does not divide", "exit $((1/0))", 2, 0.0),
]


@pytest.mark.parametrize(("script", "code", "seconds"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_how_a_script_ends(script: str, code: int | None, seconds: float) -> None:
    outcome = sh(script)
    assert (outcome.exit_code, outcome.seconds) == (code, seconds)


def test_a_loop_without_an_end_runs_for_ever_and_prints_as_time_goes_by() -> None:
    outcome = sh("while true; do echo tick; sleep 10; done")
    assert outcome.exit_code is None
    assert [each[:2] for each in outcome.output[:3]] == [(0.0, "tick\n"), (10.0, "tick\n"), (20.0, "tick\n")]


def test_variables_are_listed_as_far_as_they_are_known() -> None:
    assert sh("env", B="2", A="1", SECRET=None).text == "A=1\nB=2\n"


def test_programs_need_no_shell() -> None:
    assert run(["/bin/false"]).exit_code == 1
    assert run(["sleep", "1000000"]).seconds == 1_000_000


def test_files_of_a_volume_are_seen_by_the_next_script_from_when_they_were_written() -> None:
    files = Files({"/data": {}})
    script = "if [[ -r /data/foo-$INDEX ]]\nthen\n exit 0\nelse\n sleep 5; touch /data/foo-$INDEX\n exit 42\nfi"
    first = run(["sh", "-c", script], {"INDEX": "1"}, files, began=100.0)
    early = run(["sh", "-c", "cat /data/foo-1"], {}, files, began=104.0)
    later = run(["sh", "-c", script], {"INDEX": "1"}, files, began=105.0)
    assert (first.exit_code, early.exit_code, later.exit_code) == (42, 1, 0)


def test_moving_copying_and_removing_files() -> None:
    files = Files({"/data": {}})
    script = (
        "mkdir -p /data/d; echo x > /data/a; cp /data/a /data/b; mv /data/a /data/d; rm /data/b; ls /data/d; ls /data"
    )
    assert sh(script, files).text == "a\nd\n"
    assert sh("[ -d /data/d ] && [ ! -e /data/b ] && rm -f /data/none && rm /data/none", files).exit_code == 1


def test_output_that_is_no_text_keeps_its_bytes() -> None:
    packed = sh("echo -n 'a test' | gzip > /tmp/a; cat /tmp/a").text
    assert gzip.decompress(bytes_of(packed)) == b"a test"


LINES = [
    ("a command with its arguments", ["sleep"], ["5"], ["sleep", "5"]),
    ("arguments that are a script", [], ["/bin/sh", "-c", "exit 3"], ["/bin/sh", "-c", "exit 3"]),
    ("a shell without a script may be the entry point's", [], ["sh"], []),
    ("other arguments are the entry point's", [], ["sleep", "5"], []),
]


@pytest.mark.parametrize(
    ("command", "arguments", "line"), [case[1:] for case in LINES], ids=[case[0] for case in LINES]
)
def test_what_a_container_runs(command: list[str], arguments: list[str], line: list[str]) -> None:
    assert command_line(command, arguments) == line


NOT_UNDERSTOOD = [
    "curl http://example.com",
    "sleep 5 &",
    "trap 'exit 0' TERM; sleep 5",
    "f() { echo a; }; f",
    "case a in a) echo;; esac",
    "cat <<EOF\na\nEOF",
    "ls /etc",
    "date 11160900",
    "cat /etc/hostname",
    "echo *",
    "grep 'a.*b' /tmp/x",
    "set -e; false",
    "[ a -lt b ]",
    'echo "',
    "if true; then echo",
    "echo ${x%y}",
    "for i in 1 2; echo $i; done",
    "exit abc",
    "echo $SECRET",
    "(" * 500 + ")" * 500,
    "$(" * 500 + ")" * 500,
    "echo " + "a" * 100_000,
]


@pytest.mark.parametrize("script", NOT_UNDERSTOOD, ids=lambda script: script[:24])
def test_what_is_not_understood_is_not_guessed(script: str) -> None:
    with pytest.raises(NotUnderstood):
        sh(script, SECRET=None)


GREEDY = [
    "x=a; while :; do x=$x$x; done",
    "while :; do :; done",
    "while :; do cat /tmp/f /tmp/f > /tmp/g; cp /tmp/g /tmp/f; echo aaaa >> /tmp/f; done",
    "for i in $(seq 10000); do for j in $(seq 10000); do echo $i; done; done",
    "x=$(seq 3000); while :; do echo $((" + "1+" * 5000 + "1)); done",
    "echo $((" + "(" * 2000 + "1" + ")" * 2000 + "))",
]


@pytest.mark.parametrize("script", GREEDY, ids=lambda script: script[:24])
def test_a_greedy_script_costs_little(script: str) -> None:
    """Neither much memory nor much time: it is given up, or taken to run for ever."""
    with suppress(NotUnderstood):
        assert sh(script).exit_code is None


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="abcx$(){}[]|&;<>'\"\\` \n=-!#012 ", max_size=40) | st.text(max_size=40))
@example("$¹")
@example("echo $((¹))")
def test_no_text_breaks_the_shell(script: str) -> None:
    with suppress(NotUnderstood):
        sh(script)
