"""The size budget and the manners of the code, held by counting."""

from __future__ import annotations

import ast
import re
from statistics import median

import pytest

from tests.architecture.sources import PACKAGES, Module, modules

ALL = [module for package in PACKAGES for module in modules(package)]
HAND_WRITTEN = [module for module in ALL if ".versions." not in module.name]
LONGEST_MODULE, LONGEST_FUNCTION, MOST_PARAMETERS, DEEPEST = 250, 40, 6, 3
_OPENERS = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.Match
_SILENT = re.compile(r"except( Exception| BaseException)?( as \w+)?:\s*\n\s*(pass|\.\.\.)\s*\n")
_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
_ELSEWHERE = re.compile(r"/work/|/home/|/root/|pypi\.org|pythonhosted|repo1\.maven|#\d{2,}")


def name_of(module: Module) -> str:
    return module.name


@pytest.mark.parametrize("module", HAND_WRITTEN, ids=name_of)
def test_a_module_is_read_in_one_sitting(module: Module) -> None:
    assert len(module.lines) <= LONGEST_MODULE
    assert ast.get_docstring(module.tree), "says nothing of itself"


@pytest.mark.parametrize("module", HAND_WRITTEN, ids=name_of)
def test_a_function_does_one_thing(module: Module) -> None:
    for function in module.functions():
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= LONGEST_FUNCTION, f"{function.name} has {length} lines"
        assert _depth(function) <= DEEPEST, f"{function.name} is nested too deeply"
        parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        named = [parameter for parameter in parameters if parameter.arg not in ("self", "cls")]
        assert len(named) <= MOST_PARAMETERS, f"{function.name} takes {len(named)} parameters"


def _depth(node: ast.AST) -> int:
    """How deep blocks are nested; an `elif` is no deeper than its `if`."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        deepest = max(deepest, _depth(child) + (isinstance(child, _OPENERS) and not is_elif))
    return deepest


def test_the_usual_module_and_function_are_small() -> None:
    worker = modules("worker")
    assert median(len(module.lines) for module in worker) <= 120
    lengths = [(f.end_lineno or 0) - f.lineno + 1 for module in worker for f in module.functions()]
    assert median(lengths) <= 8


@pytest.mark.parametrize("module", ALL, ids=name_of)
def test_no_error_is_swallowed_in_silence_and_nothing_is_left_for_later(module: Module) -> None:
    assert not _SILENT.search(module.text)
    assert not _UNFINISHED.search(module.text)


@pytest.mark.parametrize("module", ALL, ids=name_of)
def test_the_code_speaks_of_itself_alone(module: Module) -> None:
    assert not _ELSEWHERE.search(module.text)


@pytest.mark.parametrize("module", HAND_WRITTEN, ids=name_of)
def test_everything_public_is_documented_in_one_sentence_first(module: Module) -> None:
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            text = ast.get_docstring(node) or ""
            assert text, f"{node.name} says nothing of itself"
            assert re.match(r"[A-Z`][^\n]*(\n[^\n]+)*?[.:?]", text), f"{node.name} begins with no sentence"


def test_comments_are_rare() -> None:
    lines = [line.strip() for module in modules("worker") for line in module.lines if line.strip()]
    comments = sum(line.startswith("#") for line in lines)
    assert comments / len(lines) <= 0.05
