"""Compute what a shell script would print, how long it would take and how it would exit, without running it.

Simulated containers behave as their command says. `run` takes a container's command line (`["sh", "-c", "sleep 5; exit
3"]`), variables and files, and returns an `Outcome`. It knows POSIX shell as far as scripts in manifests use it, and a
few dozen programs; for anything else it raises `NotUnderstood`. No process is started, no file of the machine is read,
and work and memory are limited.

| Module | Content |
|---|---|
| ``syntax.py`` | the syntax tree |
| ``parser.py``, ``words.py`` | the parser |
| ``machine.py`` | the interpreter |
| ``programs.py``, ``conditions.py`` | the programs; `test`, `[` and arithmetic |
| ``files.py`` | files in memory |
"""

from mooring.shell.files import Files
from mooring.shell.machine import Budget, Outcome, command_line, run
from mooring.shell.programs import bytes_of
from mooring.shell.syntax import NotUnderstood

__all__ = ["Budget", "Files", "NotUnderstood", "Outcome", "bytes_of", "command_line", "run"]
