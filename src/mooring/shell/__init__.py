"""A small shell that runs nothing: it works out what a script would print, how long it would take and how it would end.

Simulated containers do so what their command says. `run` takes a command line as a container has it (`["sh", "-c",
"sleep 5; exit 3"]`), variables and files, and gives an `Outcome`. It knows the language of POSIX shells as far as
scripts in manifests use it, and a few dozen programs; for anything else it raises `NotUnderstood` rather than guess. No
process is started, no file of the machine is touched, and work and memory are limited: any text is harmless.

| Module | What is there |
|---|---|
| ``syntax.py`` | the parts of a script |
| ``parser.py``, ``words.py`` | from text to parts |
| ``machine.py`` | what the parts do |
| ``programs.py``, ``conditions.py`` | the programs; `test`, `[` and arithmetic |
| ``files.py`` | files that exist in memory alone |
"""

from mooring.shell.files import Files
from mooring.shell.machine import Budget, Outcome, command_line, run
from mooring.shell.programs import bytes_of
from mooring.shell.syntax import NotUnderstood

__all__ = ["Budget", "Files", "NotUnderstood", "Outcome", "bytes_of", "command_line", "run"]
