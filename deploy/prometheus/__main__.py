"""`python -m deploy.prometheus`: write the operator's rules anew."""

from __future__ import annotations

from deploy.prometheus.operator import MANIFEST, manifest


def main() -> None:
    """Write the file and say so."""
    MANIFEST.write_text(manifest(), encoding="utf8")
    print(MANIFEST)


if __name__ == "__main__":
    main()
