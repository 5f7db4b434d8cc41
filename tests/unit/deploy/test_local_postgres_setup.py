"""Which Postgres is taken, and as whom it runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.local import accounts, postgres_binaries
from deploy.local.accounts import Account
from deploy.local.errors import MissingError

ACCOUNT = Account("postgres", uid=101, gid=104)


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", 15),
        ("postgres (PostgreSQL) 18beta1", 18),
        ("not a server", None),
    ],
)
def test_the_major_version_is_read(text: str, major: int | None) -> None:
    assert postgres_binaries.parse_version(text) == major


def test_newer_versions_come_first_by_number_not_by_letter() -> None:
    folders = [Path(f"/usr/lib/postgresql/{version}/bin") for version in ("9.6", "15", "17")]
    assert postgres_binaries.newest_first(folders) == [folders[2], folders[1], folders[0]]


def test_too_old_servers_are_passed_over_and_named_when_nothing_else_is_there() -> None:
    old, good = Path("/old"), Path("/good")
    assert postgres_binaries.pick([(old, 13), (good, 16)]) == good
    with pytest.raises(MissingError, match=r"/old has 13.*--group postgres"):
        postgres_binaries.pick([(old, 13), (good, None)])


def test_a_wheels_server_is_copied_with_the_libraries_beside_its_package(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    for folder in ("server/install/bin", "server/install/lib", "server/install/share", "server.libs"):
        site.joinpath(folder).mkdir(parents=True)
    site.joinpath("server.libs", "libpq.so").touch()
    programs = postgres_binaries.copy_to(site / "server/install/bin", tmp_path / "copy")
    assert programs == tmp_path / "copy/server/install/bin"
    assert programs.joinpath("../../../server.libs/libpq.so").exists()


def test_a_folder_that_is_not_a_servers_is_never_copied(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="cannot be run by another user"):
        postgres_binaries.copy_to(tmp_path / "bin", tmp_path / "copy")
    assert not tmp_path.joinpath("copy").exists()


@pytest.mark.parametrize(
    ("mode", "owner", "enters"),
    [
        (0o755, (0, 0), True),
        (0o700, (0, 0), False),
        (0o711, (0, 0), True),
        (0o700, (101, 0), True),
        (0o067, (101, 104), False),
        (0o710, (0, 104), True),
        (0o701, (0, 104), False),
    ],
)
def test_the_first_class_of_a_folders_mode_that_fits_decides(
    mode: int, owner: tuple[int, int], *, enters: bool
) -> None:
    assert accounts.may_enter(mode, owner, ACCOUNT) is enters


def test_data_move_to_a_temporary_folder_only_when_their_user_cannot_enter(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    stranger = Account("stranger", uid=os.getuid() + 1, gid=os.getgid() + 1)
    assert accounts.reachable_folder(closed / "data", None) == closed / "data"
    moved = accounts.reachable_folder(closed / "data", stranger)
    assert not moved.is_relative_to(tmp_path)
    assert moved == accounts.reachable_folder(closed / "data", stranger)
