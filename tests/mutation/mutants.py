"""Small wrongs put into a module, one at a time: each should make a test fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

_OTHER: dict[type[ast.AST], list[type[ast.AST]]] = {
    ast.Lt: [ast.LtE],
    ast.LtE: [ast.Lt],
    ast.Gt: [ast.GtE],
    ast.GtE: [ast.Gt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
}


@dataclass(frozen=True)
class Mutant:
    """`line` and `what` tell a person which; `source` is the whole module with it."""

    line: int
    what: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Comparisons and operators exchanged, conditions negated, numbers moved by one, truths turned, statements and
    calls left out. Words of error messages and docstrings are no behaviour and stay."""
    tree = ast.parse(source)
    places = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    for number, node in enumerate(places):
        for what in _changes(node):
            copy = deepcopy(tree)
            changed = [it for it in ast.walk(copy) if not isinstance(it, ast.expr_context)][number]
            _apply(changed, what)
            yield Mutant(getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(copy)))


def _changes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                for other in _OTHER.get(type(op), []):
                    yield f"{type(op).__name__} -> {other.__name__}{f' ({place + 1})' if len(ops) > 1 else ''}"
        case ast.BoolOp(op=op) | ast.BinOp(op=op):
            for other in _OTHER.get(type(op), []):
                yield f"{type(op).__name__} -> {other.__name__}"
        case ast.If() | ast.IfExp() | ast.While():
            yield "condition negated"
        case ast.Constant(value=bool()):
            yield "the other truth"
        case ast.Constant(value=int()):
            yield "one more"
        case ast.Raise() | ast.Continue():
            yield "left out"
        case ast.Expr(value=ast.Call()):
            yield "left out"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "returns None"


def _apply(node: ast.AST, what: str) -> None:
    match node:
        case ast.Compare(ops=ops):
            place = int(what[-2]) - 1 if what.endswith(")") else 0
            ops[place] = _OTHER[type(ops[place])][0]()  # type: ignore[call-overload]
        case ast.BoolOp(op=op) | ast.BinOp(op=op):
            node.op = _OTHER[type(op)][0]()  # type: ignore[assignment]
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.Constant(value=value):
            node.value = not value if isinstance(value, bool) else int(str(value)) + 1
        case ast.Return():
            node.value = ast.Constant(None)
        case _:
            node.__class__ = ast.Pass
            assert what == "left out"
