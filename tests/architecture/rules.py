"""What import-linter cannot say. A rule looks at one module and yields its breaches."""

import ast
import sys
from collections.abc import Callable, Iterator

from tests.architecture.source import Module

Rule = Callable[[Module], Iterator[str]]

FACE = "pentad/__init__.py"
_OF_SETTINGS = ("shared/settings.py", "shared/command_settings.py")
ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"})
CATCH_ALL = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "base", "lib"})
CLOCKS = frozenset({"now", "utcnow", "today", "localtime", "gmtime"})
OUTSIDE = frozenset({"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint", "globals"})
PURE = frozenset(
    "__future__ abc bisect collections dataclasses datetime decimal enum fractions functools hashlib heapq itertools "
    "json math operator re statistics string struct textwrap types typing unicodedata zlib "
    "base64 binascii pydantic pydantic_core snowballstemmer".split()
)
"""What a domain module may import beside contracts, its own service's domain and the data below."""
PURE_ROOMS = ("pentad.shared.recall", "pentad.shared.segments", "pentad.shared.text_protocol")
"""Rooms of the shared floor that decide as a domain does."""
PURE_SHARED = frozenset(
    {
        "pentad.shared.agent_graphs.run",
        "pentad.shared.agent_graphs.state",
        "pentad.shared.clipping",
        "pentad.shared.data_urls",
        "pentad.shared.errors",
        "pentad.shared.immutable",
        "pentad.shared.instructions",
        "pentad.shared.lenient_json",
        "pentad.shared.actors.client_tools",
        "pentad.shared.actors.headers",
        "pentad.shared.actors.session_header",
        "pentad.shared.actors.targets",
        "pentad.shared.digests.task_digest",
        "pentad.shared.digests.wording",
        "pentad.shared.keys",
        "pentad.shared.owners",
        "pentad.shared.graph.knowledge",
        "pentad.shared.graph.metadata",
        "pentad.shared.vectors.points",
        "pentad.shared.kinds",
        "pentad.shared.actors.mail",
        "pentad.shared.actors.compaction",
        "pentad.shared.actors.transcript",
        "pentad.shared.models.ports",
        "pentad.shared.schedules.due_times",
        "pentad.shared.schedules.schedule_state",
    }
)


def contracts_use_pydantic_and_the_standard_library_only(module: Module) -> Iterator[str]:
    """Contracts are data: whoever speaks Python pays for nothing else."""
    if not module.path.startswith("contracts/"):
        return
    allowed = sys.stdlib_module_names | {"pydantic", "pydantic_core"}
    for node, name in module.imports():
        if _root(name) not in allowed and not name.startswith("pentad.contracts."):
            yield module.at(node, f"contracts import {name}")


def only_settings_read_the_environment(module: Module) -> Iterator[str]:
    """One place knows every setting, its default and its meaning."""
    if module.path in _OF_SETTINGS:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT:
            yield module.at(node, f"{node.attr} outside the modules of settings")
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "posix"):
            yield from (
                module.at(node, f"{a.name} outside the modules of settings")
                for a in node.names
                if a.name in ENVIRONMENT
            )


def domain_imports_what_is_pure(module: Module) -> Iterator[str]:
    """An allowed list, because there is always one more module that reads a clock."""
    if not _is_domain(module):
        return
    own = ".".join(module.name.split(".")[:4])
    for node, name in module.imports():
        data = name in PURE_SHARED or name.startswith("pentad.contracts.") or _is_in(name, PURE_ROOMS)
        if not (_root(name) in PURE or data or f"{name}.".startswith(f"{own}.")):
            yield module.at(node, f"domain imports {name}")


def domain_has_no_clock_no_chance_and_no_effect(module: Module) -> Iterator[str]:
    """The same input gives the same decision, so that a crash may ask again."""
    if not _is_domain(module):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS:
            yield module.at(node, f"domain reads a clock: {node.func.attr}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OUTSIDE:
            yield module.at(node, f"domain calls {node.func.id}")
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global):
            yield module.at(node, f"domain has {type(node).__name__}")


def no_module_is_a_catch_all(module: Module) -> Iterator[str]:
    """A name that says nothing gathers everything."""
    if set(module.name.split(".")) & CATCH_ALL:
        yield module.at(module.tree, "a name that says nothing")


def init_files_are_empty(module: Module) -> Iterator[str]:
    """A package is a room, not a list of what is in it; only the face has names of its own."""
    if module.path.endswith("/__init__.py") and module.path != FACE and module.text.strip():
        yield module.at(module.tree, "is not empty")


def names_are_not_exported_again(module: Module) -> Iterator[str]:
    """A name has one home, and is imported from there."""
    if module.path == FACE:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name | ast.Attribute) and _is_all(node):
            yield module.at(node, "__all__")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (module.at(node, f"import {a.name} as itself") for a in node.names if a.name == a.asname)
            yield from (module.at(node, "import *") for a in node.names if a.name == "*")
        elif isinstance(node, ast.FunctionDef) and node.name == "__getattr__" and node in module.tree.body:
            yield module.at(node, "a module with __getattr__")


def imports_are_absolute(module: Module) -> Iterator[str]:
    """A line says by itself which floor it reaches."""
    for node, name in module.imports():
        if name.startswith("."):
            yield module.at(node, f"relative import {name}")


def _root(name: str) -> str:
    return name.partition(".")[0]


def _is_domain(module: Module) -> bool:
    parts = module.name.split(".")
    return (parts[1:2] == ["services"] and "domain" in parts[3:]) or _is_in(module.name, PURE_ROOMS)


def _is_in(name: str, rooms: tuple[str, ...]) -> bool:
    return ".".join(name.split(".")[:3]) in rooms


def _is_all(node: ast.Name | ast.Attribute) -> bool:
    return (node.id if isinstance(node, ast.Name) else node.attr) == "__all__"


RULES: tuple[Rule, ...] = (
    contracts_use_pydantic_and_the_standard_library_only,
    only_settings_read_the_environment,
    domain_imports_what_is_pure,
    domain_has_no_clock_no_chance_and_no_effect,
    no_module_is_a_catch_all,
    init_files_are_empty,
    names_are_not_exported_again,
    imports_are_absolute,
)
