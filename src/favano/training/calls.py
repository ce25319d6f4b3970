"""A traced graph as one Python function: a line for each kernel call, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import TypeAlias

import torch
from torch import Tensor, fx

Calls: TypeAlias = Callable[[Tensor, Tensor], list[Tensor]]

_DETACH, _TRANSPOSE = torch.ops.aten.detach.default, torch.ops.aten.t.default


def straight_line(graph: fx.Graph, fixed: Sequence[Tensor]) -> Calls:
    """The function (features, labels) -> outputs of a graph whose other, first inputs are given.

    The given ones are views of the model's vector: their values change from call to call, but not
    where they lie. So whatever is a view of them is made once, here.
    """
    known = _given_views(graph, fixed)
    graph.eliminate_dead_code()
    scope: dict[str, object] = {node.name: value for node, value in known.items()}
    lines, dead = [], _last_users(graph)
    for node in graph.nodes:
        if node.op == "output":
            lines.append(f"return {_expression(node.args[0], scope)}")
        elif node.op == "call_function":
            function = _bound(_native(node.target), scope)
            given = [_expression(value, scope) for value in node.args]
            given += [f"{name}={_expression(value, scope)}" for name, value in node.kwargs.items()]
            lines.append(f"{node.name} = {function}({', '.join(given)})")
            if node in dead:
                lines.append(f"del {', '.join(dead[node])}")
        elif node.op != "placeholder":
            raise NotImplementedError(f"a trace with {node.op}")
    features, labels = (node.name for node in graph.nodes if _is_input(node) and node not in known)
    # What never changes is bound as default values: locals are what Python finds fastest.
    fixed_names = ", ".join(f"{name}={name}" for name in scope)
    source = "\n ".join([f"def calls({features}, {labels}, {fixed_names}):", *lines])
    code: CodeType = compile(source, "<trace>", "exec")
    exec(code, scope)
    calls: Calls = scope["calls"]  # type: ignore[assignment]
    return calls


def _is_input(node: fx.Node) -> bool:
    return node.op == "placeholder"


def _given_views(graph: fx.Graph, fixed: Sequence[Tensor]) -> dict[fx.Node, Tensor]:
    """The nodes whose tensors are known beforehand; the graph goes on without their making."""
    inputs = [node for node in graph.nodes if _is_input(node)]
    known = dict(zip(inputs, fixed, strict=False))
    for node in list(graph.nodes):
        if not getattr(node.target, "is_view", False) or len(node.all_input_nodes) != 1:
            continue
        source = node.all_input_nodes[0]
        if node.target is _DETACH:
            node.replace_all_uses_with(source)
        elif node.target is source.target is _TRANSPOSE:
            node.replace_all_uses_with(source.all_input_nodes[0])
        elif source in known:
            value = node.target(known[source], *node.args[1:], **node.kwargs)
            if isinstance(value, Tensor):
                with graph.inserting_before(inputs[0]):
                    view = graph.placeholder(f"view_of_{source.name}")
                known[view] = value
                node.replace_all_uses_with(view)
    return known


def _native(target: Callable[..., object]) -> Callable[..., object]:
    """The quickest way from Python to a kernel: PyTorch's own binding, where there is one."""
    if not isinstance(target, torch._ops.OpOverload):
        return target
    name = target._schema.name.removeprefix("aten::")
    binding: Callable[..., object] = getattr(torch._C._VariableFunctions, name, target._op)
    return binding


def _bound(value: object, scope: dict[str, object]) -> str:
    """A name for a value."""
    name = f"fixed_{len(scope)}"
    scope[name] = value
    return name


def _expression(value: object, scope: dict[str, object]) -> str:
    """An argument as Python writes it."""
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, (list, tuple)) and any(isinstance(one, fx.Node) for one in value):
        return f"[{', '.join(_expression(one, scope) for one in value)}]"
    return _bound(value, scope)


def _last_users(graph: fx.Graph) -> dict[fx.Node, list[str]]:
    """What nobody asks for after a node: memory is given back as early as autograd does it."""
    last = {source: node for node in graph.nodes for source in (node, *node.all_input_nodes)}
    dead: dict[fx.Node, list[str]] = {}
    for source, node in last.items():
        if not _is_input(source):
            dead.setdefault(node, []).append(source.name)
    return dead
