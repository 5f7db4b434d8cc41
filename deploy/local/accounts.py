"""Postgres refuses to run as root: choose another account for it, and a folder it can enter."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local.errors import MissingError


@dataclass(frozen=True)
class Account:
    """A user that a server runs as."""

    name: str
    uid: int
    gid: int

    @property
    def popen(self) -> Mapping[str, Any]:
        """Arguments that make `subprocess.Popen` run a program as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def other_account() -> Account | None:
    """Return the account to run Postgres as; None when the present one will do.

    Raises MissingError when this is root and the system has neither a `postgres` nor a `nobody` user.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise MissingError(
        "Postgres does not run as root, and there is no user `postgres` or `nobody` to run it as; "
        "create one, or start this as an ordinary user."
    )


def may_enter(mode: int, owner: tuple[int, int], account: Account) -> bool:
    """Whether a folder of this mode and (uid, gid) lets the account pass through."""
    if owner[0] == account.uid:
        return bool(mode & stat.S_IXUSR)
    if owner[1] == account.gid:
        return bool(mode & stat.S_IXGRP)
    return bool(mode & stat.S_IXOTH)


def can_reach(folder: Path, account: Account | None) -> bool:
    """Whether the account can pass through the folder and every folder above it."""
    if account is None:
        return True
    found = [each.stat() for each in (folder, *folder.parents) if each.exists()]
    return all(may_enter(each.st_mode, (each.st_uid, each.st_gid), account) for each in found)


def temporary_roots() -> tuple[Path, ...]:
    """Return the folders for temporary files, the configured one first."""
    return Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")  # noqa: S108


def reachable_folder(wanted: Path, account: Account | None) -> Path:
    """Return `wanted`, or a folder of its own under the system's temporary one if it is out of reach."""
    if can_reach(wanted.parent, account):
        return wanted
    digest = hashlib.sha256(str(wanted).encode()).hexdigest()[:12]
    for root in temporary_roots():
        if can_reach(root, account):
            return root / f"headrace-{digest}"
    name = account.name if account else "anyone"
    raise MissingError(
        f"The user {name}, as whom Postgres is to run, can enter neither {wanted.parent} nor a temporary "
        "folder; set TMPDIR to one it can enter."
    )


def require_own(folder: Path) -> None:
    """Raise MissingError when somebody else has made this folder: a fixed name in a temporary folder invites it."""
    if folder.stat().st_uid != os.geteuid():
        raise MissingError(f"{folder} belongs to another user; remove it, or set TMPDIR to a folder of your own.")


def hand_over(folder: Path, account: Account | None) -> None:
    """Give a folder and what is in it to the account."""
    if account is None:
        return
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, account.uid, account.gid)
