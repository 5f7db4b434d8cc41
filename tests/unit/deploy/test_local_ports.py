"""Ports are chosen once and remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local import ports
from deploy.local.errors import StartError


def test_a_known_port_stays_and_a_new_one_is_free_and_different() -> None:
    draws = iter([20_001, 20_002, 20_003])
    chosen = ports.choose(
        ["client", "controller"], {"client": 20_002}, lambda port: port != 20_001, lambda: next(draws)
    )
    assert chosen == {"client": 20_002, "controller": 20_003}


def test_when_no_port_is_free_the_error_says_what_to_do() -> None:
    with pytest.raises(StartError, match="stop some local servers"):
        ports.choose(["client"], {}, lambda _: False, lambda: 20_000)


def test_the_ports_of_a_folder_survive_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    first = ports.remembered(path, ["client"])
    both = ports.remembered(path, ["client", "controller"])
    assert both["client"] == first["client"]
    assert ports.remembered(path, ["client", "controller"]) == both


def test_drawn_ports_lie_below_those_of_outgoing_connections() -> None:
    chosen = ports.choose([str(number) for number in range(50)], {}, lambda _: True)
    assert all(20_000 <= port < 30_000 for port in chosen.values())
    assert len(set(chosen.values())) == 50
