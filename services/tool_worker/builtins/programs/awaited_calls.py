"""Finds out which calls of a program are awaited: those may be made at once, others before the program goes on. Pure.

A tool is called plainly, ``w = get_weather(place="Paris")``, or awaited, and models write both into one program. When
a call is reached, its value has to be given or promised before it shows what the program does with it: so that is read
off the code.
"""

import ast
from collections.abc import Iterator

_WAITING = frozenset({"gather", "run", "wait_for"})
"""Functions that await what they are given."""
_ADDING = frozenset({"append", "extend", "insert"})
"""Methods of lists that add what they are given."""
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
"""Errors of the parser about code that is no Python, or nested too deep."""

Span = tuple[int, int]
"""Where an expression begins and ends, in bytes of the code."""


def awaited_calls(code: str) -> frozenset[Span]:
    """Return where the calls are whose values are awaited; none where the code cannot be read."""
    if "await" not in code and "gather" not in code:
        return frozenset()
    try:
        tree = ast.parse(code)
    except _UNREADABLE:
        return frozenset()
    found = _AwaitedExpressions(tree)
    begins = _line_begins(code)
    return frozenset(_span(call, begins) for call in found.calls)


class _AwaitedExpressions:
    """The expressions of a program that are awaited, directly or by way of names. Names of all scopes are one."""

    def __init__(self, tree: ast.AST) -> None:
        self.calls: list[ast.Call] = []
        self._names: set[str] = set()
        self._nodes = list(ast.walk(tree))
        for node in self._nodes:
            if isinstance(node, ast.Await):
                self._follow(node.value)
            elif isinstance(node, ast.Call) and _called(node) in _WAITING:
                self._follow(*node.args)
        known = -1
        while known != len(self._names):
            known = len(self._names)
            for value in [value for node in self._nodes for value in self._kept_in_names(node)]:
                self._follow(value)

    def _kept_in_names(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield what a statement keeps under a name that is awaited."""
        if isinstance(node, ast.Assign) and any(self._is_awaited(target) for target in node.targets):
            yield node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and self._is_awaited(node.target):
            if node.value is not None:
                yield node.value
        elif isinstance(node, ast.For | ast.comprehension) and self._is_awaited(node.target):
            yield node.iter
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING:
            yield from node.args if self._is_awaited(node.func.value) else ()

    def _is_awaited(self, target: ast.expr) -> bool:
        while isinstance(target, ast.Subscript | ast.Starred):
            target = target.value
        if isinstance(target, ast.Tuple | ast.List):
            return any(isinstance(each, ast.Name) and each.id in self._names for each in target.elts)
        return isinstance(target, ast.Name) and target.id in self._names

    def _follow(self, *awaited: ast.expr) -> None:
        """Note the calls and the names that these awaited expressions are made of."""
        left = list(awaited)
        while left:
            node = left.pop()
            if isinstance(node, ast.Name):
                self._names.add(node.id)
            elif isinstance(node, ast.Call):
                self.calls.append(node)
                if isinstance(node.func, ast.Attribute) and node.func.attr in ("values", "copy"):
                    left.append(node.func.value)
            left += _parts(node)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that an awaited one hands on."""
    if isinstance(node, ast.Starred | ast.Subscript):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        yield from node.elts
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        yield node.elt
    elif isinstance(node, ast.Dict):
        yield from node.values
    elif isinstance(node, ast.DictComp):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.BinOp):
        yield node.left
        yield node.right
    elif isinstance(node, ast.NamedExpr):
        yield node.value


def _called(call: ast.Call) -> str:
    """Return the name of what is called, without the object whose method it is."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _line_begins(code: str) -> list[int]:
    begins, at = [0], 0
    for line in code.encode().split(b"\n"):
        at += len(line) + 1
        begins.append(at)
    return begins


def _span(call: ast.Call, begins: list[int]) -> Span:
    end_line, end_column = call.end_lineno or call.lineno, call.end_col_offset or 0
    return begins[call.lineno - 1] + call.col_offset, begins[end_line - 1] + end_column
