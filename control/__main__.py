"""`python -m control`: the same as `headrace`."""

from __future__ import annotations

from control.cli import main

if __name__ == "__main__":
    main()
