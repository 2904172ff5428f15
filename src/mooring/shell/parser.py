"""Parse a script: lists, pipes, `if`, `while`, `for` and groups.

`parse` is called by ``machine.py``. Functions, `case`, here-documents and background jobs are not supported.
"""

from mooring.shell import syntax
from mooring.shell.words import DEEPEST, Scanner

LONGEST = 64 * 1024
_RESERVED = frozenset({"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "in", "{", "}", "!"})
_UNKNOWN = frozenset({"case", "function", "select", "coproc"})


def parse(text: str, depth: int = 0) -> syntax.Script:
    """Parse a script. Raise NotUnderstood."""
    if len(text) > LONGEST:
        raise syntax.NotUnderstood(f"a script of more than {LONGEST} letters")
    parser = _Parser(text, parse, depth)
    script = parser.script(())
    if parser.at < len(parser.text):
        raise syntax.NotUnderstood(f"`{parser.peek(10)}` where a command should begin")
    return script


class _Parser(Scanner):
    ended_by = ""

    def script(self, ends: tuple[str, ...]) -> syntax.Script:
        """Parse commands up to and including a keyword of `ends`; without any, up to the end or a `)`."""
        commands: list[syntax.Command] = []
        while True:
            self._skip_lines()
            word = self._peek_reserved_word()
            if word in ends:
                self._take(word)
                self.ended_by = word
                return tuple(commands)
            if not self.peek() or self.peek() == ")":
                if ends:
                    raise syntax.NotUnderstood(f"the end of the script where `{ends[0]}` should stand")
                return tuple(commands)
            commands.append(self._chain())
            self.skip_blanks()
            if self.peek() == "&":
                raise syntax.NotUnderstood("a command in the background")
            if self.peek() not in ("", "\n", ";", ")"):
                raise syntax.NotUnderstood(f"`{self.peek(10)}` behind a command")

    def _skip_lines(self) -> None:
        self.skip_blanks()
        while self.peek() in ("\n", ";") and self.peek():
            self.at += 1
            self.skip_blanks()

    def _peek_reserved_word(self) -> str:
        began = self.at
        self.skip_blanks()
        end = self.at
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] in "_{}!"):
            end += 1
        word, following = self.text[self.at : end], self.text[end : end + 1]
        self.at = began
        return word if not following or following in " \t\n;&|()<>" else ""

    def _take(self, word: str) -> None:
        self.skip_blanks()
        if self._peek_reserved_word() != word:
            raise syntax.NotUnderstood(f"`{self.peek(10)}` where `{word}` should stand")
        self.at += len(word)

    def _chain(self) -> syntax.Command:
        first = self._pipeline()
        rest: list[tuple[str, syntax.Command]] = []
        self.skip_blanks()
        while (operator := self.peek(2)) in ("&&", "||"):
            self.at += 2
            self._skip_lines()
            rest.append((operator, self._pipeline()))
            self.skip_blanks()
        return syntax.Chain(first, tuple(rest)) if rest else first

    def _pipeline(self) -> syntax.Command:
        negated = self._peek_reserved_word() == "!"
        if negated:
            self._take("!")
        commands = [self._command()]
        self.skip_blanks()
        while self.peek() == "|" and self.peek(2) != "||":
            self.at += 1
            self._skip_lines()
            commands.append(self._command())
            self.skip_blanks()
        return syntax.Pipeline(tuple(commands), negated) if negated or len(commands) > 1 else commands[0]

    def _command(self) -> syntax.Command:
        self.skip_blanks()
        word = self._peek_reserved_word()
        if word in _UNKNOWN:
            raise syntax.NotUnderstood(f"`{word}`")
        compound = {"if": self._if, "while": self._loop, "until": self._loop, "for": self._for, "{": self._group}
        if word in compound or self.peek() == "(":
            self.depth += 1
            if self.depth > DEEPEST:
                raise syntax.NotUnderstood("commands inside commands, too deep")
            self.at += len(word) if word in compound else 1
            found = compound.get(word, self._subshell)(word)
            self.depth -= 1
            return found
        if word in _RESERVED:
            raise syntax.NotUnderstood(f"`{word}` where a command should begin")
        return self._simple()

    def _if(self, word: str) -> syntax.Command:
        del word
        branches: list[tuple[syntax.Script, syntax.Script]] = []
        otherwise: syntax.Script | None = None
        while True:
            condition = self.script(("then",))
            body = self.script(("elif", "else", "fi"))
            branches.append((condition, body))
            if self.ended_by == "else":
                otherwise = self.script(("fi",))
            if self.ended_by == "fi":
                return syntax.If(tuple(branches), otherwise)

    def _loop(self, word: str) -> syntax.Command:
        condition = self.script(("do",))
        return syntax.Loop(condition, self.script(("done",)), until=word == "until")

    def _for(self, word: str) -> syntax.Command:
        del word
        name = _literal(self.word())
        self.skip_blanks()
        self._take("in")
        words: list[syntax.Word] = []
        while (found := self.word()) is not None:
            words.append(found)
        self._skip_lines()
        self._take("do")
        return syntax.For(name, tuple(words), self.script(("done",)))

    def _group(self, word: str) -> syntax.Command:
        del word
        body = self.script(("}",))
        return syntax.Group(body, apart=False, redirects=self._redirects())

    def _subshell(self, word: str) -> syntax.Command:
        del word
        body = self.script(())
        if self.peek() != ")":
            raise syntax.NotUnderstood("`(` without `)`")
        self.at += 1
        return syntax.Group(body, apart=True, redirects=self._redirects())

    def _simple(self) -> syntax.Command:
        assignments: list[tuple[str, syntax.Word]] = []
        words: list[syntax.Word] = []
        redirects: list[syntax.Redirect] = []
        while True:
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            word = self.word()
            if word is None:
                break
            name, value = _assignment(word) if not words else ("", word)
            if name:
                assignments.append((name, value))
            else:
                words.append(word)
        if self.peek() == "(":
            raise syntax.NotUnderstood("a function")
        if not words and not assignments and not redirects:
            raise syntax.NotUnderstood(f"`{self.peek(10)}` where a command should begin")
        return syntax.Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _redirects(self) -> tuple[syntax.Redirect, ...]:
        found: list[syntax.Redirect] = []
        while (redirect := self._redirect()) is not None:
            found.append(redirect)
        return tuple(found)

    def _redirect(self) -> syntax.Redirect | None:
        self.skip_blanks()
        digit = self.peek() if self.peek() in ("0", "1", "2") else ""
        operator = next(
            (each for each in (">>", ">&", ">", "<") if self.text.startswith(each, self.at + len(digit))), ""
        )
        if not operator:
            return None
        self.at += len(digit) + len(operator)
        if operator == "<" and self.peek() in ("<", "&", "("):
            raise syntax.NotUnderstood("a here-document")
        target = self.word()
        if target is None:
            raise syntax.NotUnderstood(f"`{operator}` without a file")
        return syntax.Redirect(int(digit) if digit else int(operator != "<"), operator, target)


def _literal(word: syntax.Word | None) -> str:
    text = "".join(part.text for part in word or () if isinstance(part, syntax.Text))
    if not text.isidentifier():
        raise syntax.NotUnderstood("`for` without a name")
    return text


def _assignment(word: syntax.Word) -> tuple[str, syntax.Word]:
    first = word[0]
    if isinstance(first, syntax.Text) and not first.quoted:
        name, equals, rest = first.text.partition("=")
        if equals and name.isidentifier():
            return name, (syntax.Text(rest), *word[1:]) if rest else word[1:]
    return "", word
