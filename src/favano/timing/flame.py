"""When devices are available, from YAML files of Flame (its example `async_cifar10`).

    traces:
      device_001:
        states_2st:
        - [0, UN_AVL]
        - [753, AVL_TRAIN]

Each device has lists of states by second, under a name: by default `states_2st`. It is there while
its state is `AVL_TRAIN`. Files of made-up traces hold such lists under the name of a trace, its
`per_trainer` and a number of trainers: `traces.syn_10.per_trainer.n300.trainer_001`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np

from favano.errors import BadInput, require
from favano.file_sizes import read_limited
from favano.timing.availability import Recorded
from favano.types import Floats

_USUAL, _THERE, _DEEPEST = "states_2st", "AVL_TRAIN", 16
Node: TypeAlias = "str | list[Node] | dict[str, Node]"


def read_states(path: Path, trace: str = _USUAL) -> Recorded:
    """The recorded devices of a file, in its order; after their last second they stay as they are.

    Args:
        path: of the file.
        trace: which lists of states, where each device has several.
    """
    value = f"flame:{path}"
    held = _document(path, value)
    traces = held.get("traces") if isinstance(held, dict) else None
    require(isinstance(traces, dict) and bool(traces), "availability", value, "has no traces")
    assert isinstance(traces, dict)
    made_up = traces.get(trace)
    if isinstance(made_up, dict) and isinstance(groups := made_up.get("per_trainer"), dict):
        devices = next(iter(groups.values()), {})
        lists = devices if isinstance(devices, dict) else {}
    else:
        lists = {
            device: states[trace]
            for device, states in traces.items()
            if isinstance(states, dict) and trace in states
        }
    rule = f"no device has {trace}; name one as flame:FILE:NAME"
    require(bool(lists), "availability", value, rule)
    return Recorded([_intervals(device, states, value) for device, states in lists.items()])


def _intervals(device: str, states: Node, value: str) -> Floats:
    pairs = states if isinstance(states, list) else []
    seconds = [_second(pair) for pair in pairs]
    good = bool(seconds) and all(0 <= second < np.inf for second in seconds)
    good = good and all(np.diff(seconds) >= 0)
    rule = f"{device}: need pairs of a second and a state, in the order of time"
    require(good, "availability", value, rule)
    there = np.array([isinstance(pair, list) and pair[1] == _THERE for pair in pairs])
    both: Floats = np.stack([seconds, [*seconds[1:], np.inf]], axis=1)[there]
    return both[both[:, 0] < both[:, 1]]


def _second(pair: Node) -> float:
    if not isinstance(pair, list) or len(pair) != 2:
        return np.nan
    second, state = pair
    try:
        return float(second) if isinstance(second, str) and isinstance(state, str) else np.nan
    except ValueError:
        return np.nan


def _document(path: Path, value: str) -> Node:
    """A YAML file as words, lists and dictionaries; no tags, and nothing that refers to another."""
    require(path.is_file(), "availability", value, "no such file")
    try:
        import yaml
    except ImportError:
        rule = "needs PyYAML, which is not installed: pip install pyyaml"
        raise BadInput("availability", value, rule) from None
    try:
        text = read_limited(path, "availability")
        return _built(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except BadInput:
        raise
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        raise BadInput("availability", value, "is not YAML that can be read") from None


def _built(events: object) -> Node:
    """The document of these events, built without recursion."""
    import yaml

    stack: list[list[Node]] = [[]]
    for event in events:  # type: ignore[attr-defined]
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("an alias")
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].append(event.value)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            stack.append([])
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            parts = stack.pop()
            whole: Node = parts
            if isinstance(event, yaml.MappingEndEvent):
                keys, values = parts[::2], parts[1::2]
                whole = {str(key): item for key, item in zip(keys, values, strict=True)}
            stack[-1].append(whole)
        if len(stack) > _DEEPEST:
            raise ValueError("nested too deeply")
    if len(stack[0]) != 1:
        raise ValueError("not one document")
    return stack[0][0]
