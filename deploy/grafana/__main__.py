"""`python -m deploy.grafana`: write the dashboards anew."""

from __future__ import annotations

from deploy.grafana.files import BOARDS, path_of, text_of


def main() -> None:
    """Write every file and say so."""
    for board in BOARDS:
        path_of(board).write_text(text_of(board), encoding="utf8")
        print(path_of(board))


if __name__ == "__main__":
    main()
