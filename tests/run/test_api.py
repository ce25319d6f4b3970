"""The package from Python: the README's example, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import favano
from favano.errors import BadInput, NonFiniteUpdate
from favano.run import seed_run
from favano.run.progress import Silence
from favano.specification.spec import changed

README = Path(__file__).parents[2] / "README.md"


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    code = [line for line in blocks[0].splitlines() if line.strip()]
    assert len(code) < 10
    torch.manual_seed(0)
    exec(compile(blocks[0], "README.md", "exec"), {})
    accuracy = float(capsys.readouterr().out.split()[0])
    assert accuracy > 0.8


def pair(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    return torch.randn(rows, 5), torch.arange(rows) % 3


SPEC = favano.Spec(clients=4, selected=2, local_steps=2, horizon=70, split="iid", batch_size=8)


def test_a_module_gives_its_weights_to_every_seed_and_a_factory_draws_new_ones() -> None:
    train, test = pair(60), pair(30)
    spec = changed(SPEC, {"seeds": 2})
    torch.manual_seed(0)
    same = favano.simulate(spec, model=nn.Linear(5, 3), train=train, test=test)
    fresh = favano.simulate(spec, model=lambda: nn.Linear(5, 3), train=train, test=test)
    starts = [[row.loss for row in result.rows if row.time == 0] for result in (same, fresh)]
    assert starts[0][0] == starts[0][1]
    assert starts[1][0] != starts[1][1]


def test_the_global_generator_is_left_alone() -> None:
    train, test = pair(60), pair(30)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    favano.simulate(SPEC, model=lambda: nn.Linear(5, 3), train=train, test=test)
    assert torch.equal(torch.rand(3), expected)


class CtrlC(Silence):
    """Presses Ctrl-C at the third update."""

    heard = 0

    def advance(self, label: str, steps: int, time: float) -> None:
        self.heard += 1
        if self.heard == 3:
            raise KeyboardInterrupt


def test_ctrl_c_ends_a_loop_over_runs_and_hands_over_what_was_measured() -> None:
    begun = []

    def one_after_another() -> None:
        for seed in range(3):
            begun.append(seed)
            spec = changed(SPEC, {"seed": seed, "evaluate_every": 7.0})
            favano.simulate(
                spec, model=nn.Linear(5, 3), train=pair(60), test=pair(30), progress=CtrlC()
            )

    with pytest.raises(KeyboardInterrupt) as ending:
        one_after_another()
    assert begun == [0]
    assert isinstance(ending.value, favano.Interrupted)
    assert ending.value.result.status == "partial"
    assert [row.time for row in ending.value.result.rows] == [0.0, 7.0, 14.0]


def test_ctrl_c_after_the_last_update_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def ctrl_c(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(seed_run, "audit", ctrl_c)
    with pytest.raises(favano.Interrupted) as ending:
        favano.simulate(SPEC, model=nn.Linear(5, 3), train=pair(60), test=pair(30))
    assert ending.value.result.status == "complete"


def test_refusals() -> None:
    model = nn.Linear(5, 3)
    with pytest.raises(BadInput, match="goes with train: give both or neither"):
        favano.simulate(SPEC, model=model, train=pair(60))
    with pytest.raises(BadInput, match="need a network for your own data"):
        favano.simulate(SPEC, train=pair(60), test=pair(30))
    features, labels = pair(60)
    with pytest.raises(BadInput, match="need whole numbers as labels"):
        favano.simulate(SPEC, model=model, train=(features, labels.float()), test=pair(30))
    with pytest.raises(BadInput, match="need equally many rows and labels"):
        favano.simulate(SPEC, model=model, train=(features[1:], labels), test=pair(30))
    with pytest.raises(NonFiniteUpdate, match="refused; lower the learning rate"):
        favano.simulate(
            SPEC, model=model, train=pair(60), test=pair(30), loss=lambda x, _: x.mean() * torch.nan
        )
    with pytest.raises(BadInput, match="device=tpu: need cpu, cuda or cuda:N"):
        favano.simulate(
            changed(SPEC, {"device": "tpu"}), model=model, train=pair(60), test=pair(30)
        )
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        favano.nonsense  # noqa: B018
