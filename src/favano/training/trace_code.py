"""A traced graph as one TorchScript function, with one line per kernel call.

TorchScript's interpreter makes the calls in less time than Python does. It is kept from optimising
them: the kernels stay those of the graph, in the same order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor, fx

from favano.training.task import Batch

Calls: TypeAlias = Callable[[Sequence[Batch], float | None], None]

_DETACH, _TRANSPOSE = torch.ops.aten.detach.default, torch.ops.aten.t.default
_VIEW = torch.ops.aten.view.default
_IN_TORCHSCRIPT = {torch.ops.aten.view.dtype: torch.ops.aten.view_copy.dtype}
_TYPES = {  # of what is passed to the function, in TorchScript
    Tensor: "Tensor",
    float: "float",
    torch.device: "Device",
    torch.dtype: "int",
    torch.layout: "int",
    torch.memory_format: "int",
}


def straight_line(
    graph: fx.Graph,
    fixed: Sequence[Tensor],
    into: Sequence[Tensor],
    weights: Tensor,
    gradient: Tensor,
) -> Calls:
    """A function that writes the graph's outputs into the tensors `into`, batch after batch.

    With a step size, `gradient` times that is subtracted from `weights` after each batch. `fixed`
    are the graph's first inputs: views of the model's vector. Their values change from call to
    call, their memory does not, so views of them are made once, here.
    """
    known = _given_views(graph, fixed)
    into = _reshaped(graph, into)
    graph.eliminate_dead_code()
    *calls, output = [node for node in graph.nodes if not _is_input(node)]
    features, labels = (node.name for node in graph.nodes if _is_input(node) and node not in known)
    scope: dict[str, object] = {node.name: value for node, value in known.items() if node.users}
    places = dict(zip(output.all_input_nodes, into, strict=True))
    lines = [f"{features} = all_features[i]", f"{labels} = all_labels[i]"]
    for node in calls:
        out = _bound(places.pop(node), scope) if node in places and _writes_anywhere(node) else ""
        lines.append(f"{node.name} = {_call(node, scope, out)}")
    lines += [f"{_bound(place, scope)}.copy_({node.name})" for node, place in places.items()]
    function = _compiled(lines, scope)

    def run(batches: Sequence[Batch], rate: float | None) -> None:
        features, labels = ([batch[part] for batch in batches] for part in (0, 1))
        with torch.inference_mode(), torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            function(features, labels, rate, weights, gradient, *scope.values())

    return run


def _compiled(lines: Sequence[str], scope: Mapping[str, object]) -> Callable[..., None]:
    """The lines as a function: in a loop over batches, with a step of SGD after each."""
    types = "".join(f", {name}: {_type(value)}" for name, value in scope.items())
    head = "all_features: List[Tensor], all_labels: List[Tensor], rate: Optional[float]"
    source = [
        f"def calls({head}, weights: Tensor, gradient: Tensor{types}) -> None:",
        "    for i in range(len(all_features)):",
        *(f"        {line}" for line in lines),
        "        if rate is not None:",
        "            weights.sub_(gradient, alpha=rate)",
        "",
    ]
    return cast(Callable[..., None], torch.jit.CompilationUnit("\n".join(source)).calls)


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
    name = getattr(getattr(node.target, "_schema", None), "name", "")
    known = name in ("aten::mm", "aten::addmm", "aten::bmm", "aten::sum")
    return known and len(node.users) == 1 and not node.kwargs


def _call(node: fx.Node, scope: dict[str, object], out: str) -> str:
    """A node as code; `out` is the tensor to write into, if any."""
    if node.target is operator.getitem:
        return f"{node.args[0]}[{node.args[1]}]"
    if not isinstance(node.target, torch._ops.OpOverload):  # or a tensor that is no input
        raise NotImplementedError(f"{node.op} {node.target} in a trace")
    schema = _IN_TORCHSCRIPT.get(node.target, node.target)._schema
    names = [argument.name for argument in schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}  # tells overloads apart
    code = [f"{name}={_expression(value, scope)}" for name, value in given.items()]
    code += [f"out={out}"] if out else []
    return f"torch.ops.{schema.name.replace('::', '.')}({', '.join(code)})"


def _expression(value: object, scope: dict[str, object]) -> str:
    """An argument as code."""
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_expression(item, scope) for item in value)}]"
    return _bound(value, scope) if isinstance(value, tuple(_TYPES)) else repr(value)


def _bound(value: object, scope: dict[str, object]) -> str:
    """A new name for a value."""
    name = f"fixed_{len(scope)}"
    scope[name] = value
    return name


def _type(value: object) -> str:
    """The type of a value in TorchScript."""
    return next(name for kind, name in _TYPES.items() if isinstance(value, kind))
