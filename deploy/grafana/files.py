"""Where the dashboards lie, and what stands in them."""

from __future__ import annotations

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana import endpoints, fleet, jobs, services
from deploy.grafana.parts import Board, build

FOLDER = Path(__file__).parent / "dashboards"
BOARDS: tuple[Board, ...] = (fleet.BOARD, jobs.BOARD, endpoints.BOARD, services.BOARD)


def text_of(board: Board) -> str:
    """A dashboard as Grafana reads it."""
    return json.dumps(build(board).build(), cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def path_of(board: Board) -> Path:
    """The file of a dashboard."""
    return FOLDER / f"{board.name}.json"
