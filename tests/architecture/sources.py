"""The product's own Python files, read and parsed once."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "producer", "worker", "backfill", "control", "simulator")


@dataclass(frozen=True)
class Module:
    """One file; `name` is how it is imported."""

    path: Path
    name: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """Its top-level package."""
        return self.name.split(".")[0]

    @property
    def lines(self) -> list[str]:
        """Its text by lines."""
        return self.text.splitlines()

    def imports(self) -> Iterator[str]:
        """Every module it imports, wherever in the file."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


@functools.cache
def modules(package: str) -> tuple[Module, ...]:
    """All modules of a package."""
    return tuple(map(_read, sorted((ROOT / package).rglob("*.py"))))


def _read(path: Path) -> Module:
    relative = path.relative_to(ROOT).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
    text = path.read_text(encoding="utf8")
    return Module(path, ".".join(parts), text, ast.parse(text))


def matches(name: str, prefix: str) -> bool:
    """Whether a dotted name is this one or inside it."""
    return name == prefix or name.startswith(prefix + ".")
