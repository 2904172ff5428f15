"""The programs that this shell knows: functions of host, arguments and standard input that return the exit code.

`PROGRAMS` lists them. An unknown option makes the whole script not understood.
"""

import gzip
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from mooring.shell import conditions
from mooring.shell.syntax import Exits, LeavesLoop, NotUnderstood

if TYPE_CHECKING:
    from mooring.shell.machine import Machine

_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "r": "\r"}
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_SEQUENCE = 10_000


Program = Callable[["Machine", list[str], str], int]


def _options(words: Sequence[str], known: str) -> tuple[set[str], list[str]]:
    letters: set[str] = set()
    rest: list[str] = []
    for position, word in enumerate(words):
        if word == "--":
            return letters, [*rest, *words[position + 1 :]]
        if not rest and word.startswith("-") and len(word) > 1:
            if not set(word[1:]) <= set(known):
                raise NotUnderstood(f"the option {word[:40]}")
            letters |= set(word[1:])
        else:
            rest.append(word)
    return letters, rest


# -- builtins


def _exit(host: "Machine", words: list[str], stdin: str) -> int:
    raise Exits(conditions.parse_integer(words[0]) % 256 if words else host.status)


def _leave_loop(host: "Machine", words: list[str], stdin: str, *, goes_on: bool) -> int:
    if words not in ([], ["1"]):
        raise NotUnderstood("leaving several loops")
    raise LeavesLoop(goes_on=goes_on)


def _export(host: "Machine", words: list[str], stdin: str) -> int:
    for word in words:
        name, equals, value = word.partition("=")
        if not name.isidentifier():
            raise NotUnderstood(f"export {word[:40]}")
        if equals:
            host.variables[name] = value
    return 0


def _set(host: "Machine", words: list[str], stdin: str) -> int:
    """Accept options that change tracing or checks, except `-e`, which could end the script earlier."""
    if any(word not in ("-x", "-u", "+x", "+e", "-o", "pipefail") for word in words):
        raise NotUnderstood(f"set {' '.join(words)[:40]}")
    return 0


def _exec(host: "Machine", words: list[str], stdin: str) -> int:
    raise Exits(host.program(words, stdin) if words else 0)


# -- output


def _echo(host: "Machine", words: list[str], stdin: str) -> int:
    newline = "\n"
    escapes = False
    while words and words[0] in ("-n", "-e", "-ne", "-en"):
        newline = "" if "n" in words[0] else newline
        escapes = escapes or "e" in words[0]
        words = words[1:]
    text = " ".join(words)
    host.print((_unescape(text) if escapes else text) + newline)
    return 0


def _unescape(text: str) -> str:
    return re.sub(r"\\([nt\\r])", lambda match: _ESCAPES[match[1]], text)


def _printf(host: "Machine", words: list[str], stdin: str) -> int:
    if not words:
        return 1
    pattern, *rest = words
    pieces = re.split(r"(%[sd%])", _unescape(pattern))
    if any("%" in piece for piece in pieces[::2]):
        raise NotUnderstood(f"printf {pattern[:40]}")
    wants = sum(piece in ("%s", "%d") for piece in pieces)
    while True:
        taken, rest = rest[:wants], rest[wants:]
        values = iter(taken)
        host.print("".join(_format_directive(piece, values) for piece in pieces))
        if not rest or not wants:
            return 0


def _format_directive(piece: str, values: Iterator[str]) -> str:
    if piece == "%%":
        return "%"
    if piece == "%d":
        return str(conditions.parse_integer(next(values, "") or "0"))
    return next(values, "") if piece == "%s" else piece


def _seq(host: "Machine", words: list[str], stdin: str) -> int:
    match [conditions.parse_integer(word) for word in words]:
        case [last]:
            first, step = 1, 1
        case [first, last]:
            step = 1
        case [first, step, last]:
            pass
        case _:
            first, step, last = 0, 0, 0
    if not step or abs(last - first) // abs(step) > _LONGEST_SEQUENCE:
        raise NotUnderstood(f"seq {' '.join(words)[:40]}")
    host.print("".join(f"{value}\n" for value in range(first, last + (1 if step > 0 else -1), step)))
    return 0


def _env(host: "Machine", words: list[str], stdin: str) -> int:
    if words:
        raise NotUnderstood("env with a command")
    known = [(name, value) for name, value in sorted(host.variables.items()) if value is not None]
    host.print("".join(f"{name}={value}\n" for name, value in known))
    return 0


def _hostname(host: "Machine", words: list[str], stdin: str) -> int:
    name = host.variables.get("HOSTNAME")
    if words or not name:
        raise NotUnderstood("hostname")
    host.print(f"{name}\n")
    return 0


def _printenv(host: "Machine", words: list[str], stdin: str) -> int:
    if len(words) != 1:
        raise NotUnderstood("printenv of several variables")
    value = host.variables.get(words[0], "")
    if value is None:
        raise NotUnderstood(f"the variable {words[0]}")
    host.print(f"{value}\n" if words[0] in host.variables else "")
    return int(words[0] not in host.variables)


def _whoami(host: "Machine", words: list[str], stdin: str) -> int:
    host.print("root\n")
    return 0


# -- time, tests and arithmetic


def _date(host: "Machine", words: list[str], stdin: str) -> int:
    now = datetime.fromtimestamp(host.now, UTC)
    match [word for word in words if word != "-u"]:
        case []:
            text = f"{now:%a %b} {now.day:2} {now:%H:%M:%S} UTC {now:%Y}"
        case [form] if form.startswith("+") and re.fullmatch(r"(?:%[aAbBdFHIjmMpsSTyYZ%]|[^%\0])*", form[1:]):
            text = now.strftime(form[1:].replace("%s", str(int(host.now))))
        case [word] if re.fullmatch(r"[^-+].*", word) and not re.search(r"\d", word):
            host.print(f"date: invalid date '{word}'\n", 2)  # one to set the clock by has digits
            return 1
        case _:
            raise NotUnderstood(f"date {' '.join(words)[:40]}")
    host.print(f"{text}\n")
    return 0


def _uptime(host: "Machine", words: list[str], stdin: str) -> int:
    if words:
        raise NotUnderstood(f"uptime {' '.join(words)[:40]}")
    host.print(f" {datetime.fromtimestamp(host.now, UTC):%H:%M:%S} up 0 min,  load average: 0.00, 0.00, 0.00\n")
    return 0


def _sleep(host: "Machine", words: list[str], stdin: str) -> int:
    for word in words:
        match = re.fullmatch(r"(\d{0,15}(?:\.\d{1,9})?)([smhd]?)", word)
        if word in ("infinity", "inf"):
            host.sleep(float("inf"))
        elif match is None or not match[1]:
            raise NotUnderstood(f"sleep {word[:40]}")
        else:
            host.sleep(float(match[1]) * _UNITS[match[2]])
    return 0


def _test(host: "Machine", words: list[str], stdin: str) -> int:

    def of_file(operator: str, path: str) -> bool:
        if operator == "-d":
            return host.files.is_directory(path, host.now)
        if operator == "-x":
            raise NotUnderstood("test -x")
        text = host.files.read(path, host.now)
        return bool(text) if operator == "-s" else text is not None

    return int(not conditions.evaluate_test(words, of_file))


def _bracket(host: "Machine", words: list[str], stdin: str) -> int:
    if not words or words[-1] not in ("]", "]]"):
        raise NotUnderstood("`[` without `]`")
    return _test(host, words[:-1], stdin)


def _expr(host: "Machine", words: list[str], stdin: str) -> int:
    try:
        found = conditions.expr(words)
    except ZeroDivisionError:
        host.print("expr: division by zero\n", 2)
        return 2
    host.print(f"{found}\n")
    return int(found in ("", "0"))


# -- files


def _cat(host: "Machine", words: list[str], stdin: str) -> int:
    _, paths = _options(words, "")
    if not paths:
        host.print(stdin)
    code = 0
    for path in paths:
        text = host.files.read(path, host.now)
        if text is None:
            host.print(f"cat: can't open '{path}': No such file or directory\n", 2)
            code = 1
        else:
            host.print(text)
    return code


def _touch(host: "Machine", words: list[str], stdin: str) -> int:
    for path in _options(words, "")[1]:
        host.files.write(path, "", host.now, append=True)
    return 0


def _rm(host: "Machine", words: list[str], stdin: str) -> int:
    letters, paths = _options(words, "rf")
    code = 0
    for path in paths:
        if not host.files.remove(path) and "f" not in letters:
            host.print(f"rm: can't remove '{path}': No such file or directory\n", 2)
            code = 1
    return code


def _mkdir(host: "Machine", words: list[str], stdin: str) -> int:
    for path in _options(words, "p")[1]:
        host.files.make_directory(path, host.now)
    return 0


def _copy(host: "Machine", words: list[str], stdin: str, *, moves: bool = False) -> int:
    _, paths = _options(words, "fv")
    if len(paths) != 2:
        raise NotUnderstood("copying several files")
    source, target = paths
    text = host.files.read(source, host.now)
    if text is None:
        host.print(f"can't open '{source}': No such file or directory\n", 2)
        return 1
    if target.endswith("/") or host.files.is_directory(target, host.now):
        target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
    host.files.write(target, text, host.now)
    if moves:
        host.files.remove(source)
    return 0


def _ls(host: "Machine", words: list[str], stdin: str) -> int:
    _, paths = _options(words, "1")
    if len(paths) != 1:
        raise NotUnderstood("ls of several directories")
    host.print("".join(f"{name}\n" for name in host.files.names(paths[0], host.now)))
    return 0


def _grep(host: "Machine", words: list[str], stdin: str) -> int:
    """Support fixed strings only."""
    letters, rest = _options(words, "qFvx")
    if not rest or len(rest) > 2 or ("F" not in letters and re.search(r"[^\w \-=:/,]", rest[0])):
        raise NotUnderstood("grep with a pattern")
    text = stdin if len(rest) == 1 else host.files.read(rest[1], host.now)
    if text is None:
        host.print(f"grep: {rest[1]}: No such file or directory\n", 2)
        return 2
    wanted = rest[0]
    found = [
        line
        for line in text.splitlines()
        if ((line == wanted) if "x" in letters else (wanted in line)) is not ("v" in letters)
    ]
    if "q" not in letters:
        host.print("".join(f"{line}\n" for line in found))
    return int(not found)


def _gzip(host: "Machine", words: list[str], stdin: str) -> int:
    _, paths = _options(words, "c")
    if paths:
        raise NotUnderstood("gzip of files")
    host.print(gzip.compress(bytes_of(stdin), mtime=0).decode(errors="surrogateescape"))
    return 0


def bytes_of(text: str) -> bytes:
    """Encode the output of a program; bytes that are not UTF-8 are held as lone surrogates."""
    return text.encode(errors="surrogateescape")


PROGRAMS: dict[str, Program] = {
    "true": lambda *_: 0,
    ":": lambda *_: 0,
    "false": lambda *_: 1,
    "exit": _exit,
    "break": partial(_leave_loop, goes_on=False),
    "continue": partial(_leave_loop, goes_on=True),
    "export": _export,
    "set": _set,
    "exec": _exec,
    "echo": _echo,
    "printf": _printf,
    "seq": _seq,
    "env": _env,
    "hostname": _hostname,
    "printenv": _printenv,
    "whoami": _whoami,
    "date": _date,
    "uptime": _uptime,
    "sleep": _sleep,
    "test": _test,
    "[": _bracket,
    "[[": _bracket,
    "expr": _expr,
    "cat": _cat,
    "touch": _touch,
    "rm": _rm,
    "mkdir": _mkdir,
    "cp": _copy,
    "mv": partial(_copy, moves=True),
    "ls": _ls,
    "grep": _grep,
    "gzip": _gzip,
    "sync": lambda *_: 0,
}
