"""A traced graph as one Python function, with one line per kernel call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor, fx

Calls: TypeAlias = Callable[[Tensor, Tensor], None]

_DETACH, _TRANSPOSE = torch.ops.aten.detach.default, torch.ops.aten.t.default
_VIEW = torch.ops.aten.view.default


def straight_line(graph: fx.Graph, fixed: Sequence[Tensor], into: Sequence[Tensor]) -> Calls:
    """A function of (features, labels) that writes the graph's outputs into the tensors `into`.

    `fixed` are the graph's first inputs: views of the model's vector. Their values change from call
    to call, their memory does not, so views of them are made once, here.
    """
    known = _given_views(graph, fixed)
    into = _reshaped(graph, into)
    graph.eliminate_dead_code()
    *calls, output = [node for node in graph.nodes if not _is_input(node)]
    features, labels = (node.name for node in graph.nodes if _is_input(node) and node not in known)
    scope: dict[str, object] = {node.name: value for node, value in known.items()}
    places = dict(zip(output.all_input_nodes, into, strict=True))
    direct = {node for node in places if _writes_anywhere(node)}
    copied = [node for node in places if node not in direct]
    lines, dead = [], _last_users(graph)
    for node in calls:
        if node.op != "call_function":  # a tensor from outside, which may change unnoticed
            raise NotImplementedError(f"{node.op} in a trace")
        given = [_expression(value, scope) for value in node.args]
        given += [f"{name}={_expression(value, scope)}" for name, value in node.kwargs.items()]
        if node in direct:
            given.append(f"out={_bound(places[node], scope)}")
        lines.append(f"{node.name} = {_bound(_native(node), scope)}({', '.join(given)})")
        if node in dead:
            lines.append(f"del {', '.join(dead[node])}")
    if copied:
        copy = _bound(torch._foreach_copy_, scope)
        targets = _bound([places[node] for node in copied], scope)
        lines.append(f"{copy}({targets}, [{', '.join(node.name for node in copied)}])")
    # Constants are bound as default values: Python finds locals fastest.
    defaults = ", ".join(f"{name}={name}" for name in scope)
    source = "\n ".join([f"def calls({features}, {labels}, {defaults}):", *lines])
    exec(compile(source, "<trace>", "exec"), scope)
    return cast(Calls, scope["calls"])


def _is_input(node: fx.Node) -> bool:
    return node.op == "placeholder"


def _given_views(graph: fx.Graph, fixed: Sequence[Tensor]) -> dict[fx.Node, Tensor]:
    """Nodes whose tensors are known before a call; the graph takes these as inputs."""
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


def _reshaped(graph: fx.Graph, into: Sequence[Tensor]) -> list[Tensor]:
    """Tensors for the outputs; an output that is only a reshaped node is replaced by the node."""
    output = next(iter(reversed(graph.nodes)))
    outputs, places = list(output.args[0]), list(into)
    for number, node in enumerate(outputs):
        if node.target is _VIEW and "val" in node.args[0].meta:
            outputs[number] = node.args[0]
            places[number] = places[number].view(node.args[0].meta["val"].shape)
    output.args = (outputs,)
    return places


def _writes_anywhere(node: fx.Node) -> bool:
    """Whether the kernel can write its result, which nothing else needs, into a given tensor."""
    name = getattr(_native(node), "__name__", "")
    return len(node.users) == 1 and name in ("mm", "addmm", "bmm", "sum") and not node.kwargs


def _native(node: fx.Node) -> Callable[..., object]:
    """The fastest Python function for a kernel: PyTorch's own binding, if there is one."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return cast(Callable[..., object], target)
    name = target._schema.name.removeprefix("aten::")
    found = getattr(torch._C._VariableFunctions, name, None) or getattr(Tensor, name, target._op)
    return cast(Callable[..., object], found)


def _bound(value: object, scope: dict[str, object]) -> str:
    """A new name for a value."""
    name = f"fixed_{len(scope)}"
    scope[name] = value
    return name


def _expression(value: object, scope: dict[str, object]) -> str:
    """An argument as Python code."""
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, (list, tuple)) and any(isinstance(one, fx.Node) for one in value):
        return f"[{', '.join(_expression(one, scope) for one in value)}]"
    return _bound(value, scope)


def _last_users(graph: fx.Graph) -> dict[fx.Node, list[str]]:
    """Nodes that are not used after a node, so that memory is freed as early as by autograd."""
    last = {source: node for node in graph.nodes for source in (node, *node.all_input_nodes)}
    dead: dict[fx.Node, list[str]] = {}
    for source, node in last.items():
        if not _is_input(source):
            dead.setdefault(node, []).append(source.name)
    return dead
