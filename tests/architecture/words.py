"""Words: docstrings that can be understood alone, and constants that are named by a noun of the field.

A check cannot tell good prose; it finds what CONTRIBUTING.md names as the beginnings of a riddle. Run it on some
folders with ``python -m tests.architecture.words shared/memory services/archiver``.
"""

import ast
import re
import sys
from collections.abc import Iterator

from tests.architecture.rules import Rule
from tests.architecture.source import Module, modules

_NO_SUBJECT = (
    "What Of Its Their Whose By For In As With Until Those It He They Something Such And Also Beside Behind "
    "Nobody Nothing None True False"
).split()
"""Words with which a docstring begins that leans on the line above it, or that names its subject by a riddle."""
_RIDDLE = re.compile(rf"(?:{'|'.join(_NO_SUBJECT)}|The same|[0-9]+)\b(?!-)")
_SENTENCE_END = (".", "?", "!", ":", "``", ")", "`")
_NO_NOUN = re.compile(
    r"_?(MOST|LEAST|LESS|MORE|FEW|MANY|LARGE|SMALL|LONG|LONGEST|SHORT|AT_ONCE|ANY|ALL|OFTEN|SELDOM|SOON|LATER|EARLY|LATE|OURS|"
    r"SAID|TOLD|AHEAD|NEVER|ALWAYS|NOBODY|NOTHING|ONCE|AGAIN|LOOKS|TRIES)(_S|_MS)?"
)
"""Names of constants that say how much, and not of what."""


def docstrings_stand_alone(module: Module) -> Iterator[str]:
    """A docstring has a subject of its own, of the domain, and ends as a sentence does."""
    for node in _docstrings(module.tree):
        text = str(node.value).strip()
        summary = text.split("\n\n")[0].replace("\n", " ")
        if (found := _RIDDLE.match(text)) is not None:
            yield module.at(node, f"a docstring begins with {found[0]!r}: {summary[:70]}")
        elif not summary.rstrip().endswith(_SENTENCE_END):
            yield module.at(node, f"a docstring ends without a full stop: {summary[-40:]}")


def constants_are_named_by_a_noun(module: Module) -> Iterator[str]:
    """A name has one meaning in the house: ``_MAX_LETTERS``, not ``_MOST``."""
    for node in module.tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for each in targets:
            for target in each.elts if isinstance(each, ast.Tuple) else [each]:
                if isinstance(target, ast.Name) and _NO_NOUN.fullmatch(target.id):
                    yield module.at(node, f"{target.id} says how much, and not of what")


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """The texts that stand alone in modules, classes, functions, and below what they describe."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


WORD_RULES: tuple[Rule, ...] = (docstrings_stand_alone, constants_are_named_by_a_noun)


def main() -> int:
    """Print the breaches in the folders that are named, or in all; returns how the process ends."""
    found = [
        breach
        for module in modules()
        if not sys.argv[1:] or module.path.startswith(tuple(sys.argv[1:]))
        for rule in WORD_RULES
        for breach in rule(module)
    ]
    print("\n".join([*found, f"{len(found)} breaches"]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
