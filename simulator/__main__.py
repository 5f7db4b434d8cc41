"""`python -m simulator`: settings from the environment, then serve until stopped."""

from __future__ import annotations

import os
import sys

from simulator.server import run
from simulator.settings import SettingsError, read_settings


def main() -> int:
    """Runs the simulator; gives the exit code: 0 stopped, 1 could not listen, 2 settings or script wrong."""
    try:
        settings = read_settings(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"simulator: the settings are wrong\n{error}\n")
        return 2
    try:
        run(settings)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        sys.stderr.write(f"simulator: cannot listen on {where} or open the ledger: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
