"""Bearer tokens from a file: `token,user,uid,"group1,group2"`, a line each, as `--token-auth-file` of Kubernetes."""

import csv
import hashlib
from pathlib import Path

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.messages import users


class TokenFileError(Exception):
    """The file cannot be used. The message names the line and never a token."""


class TokenFile:
    """Known tokens, kept as hashes so that looking one up takes the same time however much of it was guessed."""

    def __init__(self, tokens: dict[str, UserInfo]) -> None:
        self._users = {_digest(token): user for token, user in tokens.items()}

    @classmethod
    def read(cls, path: Path) -> "TokenFile":
        try:
            rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines(), skipinitialspace=True))
        except OSError as error:
            raise TokenFileError(f"cannot read {path}: {error.strerror}") from error
        except (csv.Error, UnicodeDecodeError) as error:
            raise TokenFileError(f"{path} is no file of comma-separated values in UTF-8") from error
        tokens: dict[str, UserInfo] = {}
        for number, row in enumerate(rows, 1):
            if not row or row[0].lstrip().startswith("#"):
                continue
            if len(row) < 3:
                raise TokenFileError(f"{path}:{number}: expected token,user,uid and perhaps groups")
            token, name, uid = (field.strip() for field in row[:3])
            if not token or not name:
                raise TokenFileError(f"{path}:{number}: the token and the user must not be empty")
            if token in tokens:
                raise TokenFileError(f"{path}:{number}: the same token stands in an earlier line")
            groups = [group.strip() for group in row[3].split(",") if group.strip()] if len(row) > 3 else []
            tokens[token] = users.authenticated(name, uid, groups)
        return cls(tokens)

    def user(self, token: str) -> UserInfo | None:
        return self._users.get(_digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
