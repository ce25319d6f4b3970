"""Data and networks of one's own: named as such, with defaults that are said."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import scipy.sparse
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, StackDataset, Subset, TensorDataset

import favano
from favano.data.tables import owner_codes
from favano.errors import BadInput
from favano.planning.fleet import make_fleet
from favano.results import check_folder, write_result
from favano.run.own_data import own_samples, read_data
from favano.run.samples import make_task
from favano.specification.keys import Keys
from tests.specs import complete, unchained

GIVEN: Keys = {
    "selected": 2, "local_steps": 2, "learning_rate": 0.1, "horizon": 70.0,
    "evaluate_every": 35.0,
}  # fmt: skip
FLEET = favano.Fleet(clients=4)


def pair(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    return torch.randn(rows, 5), torch.arange(rows) % 3


def own(split: str | None = "iid", batch_size: int | None = 8) -> favano.Problem:
    return favano.Problem(
        lambda: nn.Linear(5, 3), train=pair(120), test=pair(30), split=split, batch_size=batch_size
    )


def test_the_result_is_not_called_digits(tmp_path: Path) -> None:
    result = favano.simulate("favano", own(), FLEET, **GIVEN)
    assert (result.spec.problem.dataset, result.spec.problem.model) == ("own", "own")
    write_result(tmp_path, result, "python")
    check_folder(tmp_path, result.spec)
    again = favano.simulate("favano", own(), FLEET, **GIVEN)
    assert again.rows == result.rows


def test_what_was_left_open_is_said(caplog: pytest.LogCaptureFixture) -> None:
    open_ = own(split=None, batch_size=None)
    result = favano.simulate("favano", open_, horizon=70, local_steps=2)
    assert caplog.messages == [
        "defaults used for your data: split=iid, clients=20, selected=5, "
        "learning_rate=0.05, batch_size=32, evaluate_every=50"
    ]
    assert (
        result.spec.fleet.clients,
        result.spec.problem.split,
        result.spec.training.learning_rate,
    ) == (20, "iid", 0.05)
    favano.simulate("fedbuff", open_, horizon=70, local_steps=2)
    assert "buffer=5" in caplog.messages[-1]  # which FAVANO has none of


def test_of_several_methods_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    favano.compare(["favano", "fedbuff"], own(), FLEET, **GIVEN)
    assert caplog.messages == ["defaults used for your data: buffer=5"]


def test_nothing_is_said_where_all_was_given(caplog: pytest.LogCaptureFixture) -> None:
    favano.simulate("favano", own(), FLEET, **GIVEN)
    favano.simulate(favano.FedBuff(buffer=2), own(), FLEET, **GIVEN)
    assert caplog.messages == []


@pytest.mark.parametrize("dataset", ["mnist", "digits"])
def test_a_name_beside_own_data_is_refused(dataset: str) -> None:
    with pytest.raises(BadInput, match=f"dataset={dataset}: own data were given; remove it"):
        favano.Problem(nn.Linear(5, 3), train=pair(60), test=pair(30), dataset=dataset)


def test_an_own_network_on_named_data(caplog: pytest.LogCaptureFixture) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    problem = favano.Problem(network, dataset="digits", split="iid", batch_size=8)
    result = favano.simulate("favano", problem, favano.Fleet(clients=10), **GIVEN)
    assert (result.spec.problem.dataset, result.spec.problem.model) == ("digits", "own")
    assert caplog.messages == []


def test_own_data_must_be_there() -> None:
    with pytest.raises(BadInput, match="dataset=own: need train and test"):
        favano.Problem(nn.Linear(5, 3), dataset="own")
    with pytest.raises(BadInput, match="dataset=own: need train and test"):
        favano.simulate("favano", "own")


def test_other_data_keep_their_constants() -> None:
    for dataset, clients in (("digits", 30), ("mnist", 100), ("some/folder", 100)):
        assert complete(dataset=dataset).fleet.clients == clients


def test_what_is_for_named_data_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^data_fraction=0.5: is for data sets by name"):
        favano.Problem(nn.Linear(5, 3), train=pair(60), test=pair(30), data_fraction=0.5)


def test_held_out_samples_take_the_place_of_test_data() -> None:
    """Each is in one part, with its target and its client; the test data are not looked at."""
    inputs, targets = torch.arange(60.0).reshape(60, 1), torch.arange(60) % 3
    parts = [list(range(20)), list(range(20, 60))]
    train, test = (inputs, targets), (torch.full((30, 1), -1.0), torch.zeros(30).long())
    given = favano.Problem(nn.Linear(1, 3), train, test, split=parts, holdout=12)
    data = read_data(given)
    held, kept = data.test.inputs.flatten(), data.train.inputs.flatten()
    assert (len(held), len(kept)) == (12, 48)
    assert sorted(torch.cat([held, kept]).tolist()) == list(range(60))
    assert held.tolist() != list(range(48, 60))
    for part, owners in ((data.train, data.owners), (data.test, data.test_owners)):
        assert torch.equal(part.targets, part.inputs.flatten().long() % 3)
        assert (owners["own"] == (part.inputs.flatten() >= 20).numpy()).all()
    for count in (60, -1):
        with pytest.raises(BadInput, match=f"^holdout={count}: need "):
            read_data(favano.Problem(nn.Linear(1, 3), train, test, holdout=count))


def test_inputs_are_of_one_type() -> None:
    features, labels = pair(30)
    problem = favano.Problem(
        lambda: nn.Linear(5, 3), train=pair(120), test=(features.double(), labels), split="iid"
    )
    with pytest.raises(BadInput, match=r"^test=torch.float64: need inputs of one type"):
        favano.simulate("favano", problem, FLEET, **GIVEN)


FOLDER = Path(__file__).parents[2] / "examples"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)  # as `python examples/own_data_formats.py` has it
    FILES = [runpy.run_path(str(FOLDER / f"own_data{part}.py")) for part in ("", "_formats")]


@pytest.mark.parametrize(
    "case", [case for file in FILES for case in file["CASES"]], ids=lambda case: case.__name__
)
def test_examples(case: Callable[[], favano.Problem]) -> None:
    """Each learns something, on as many clients as the data have."""
    keys: Keys = {"selected": 2, "learning_rate": 0.2, "horizon": 200.0, "local_steps": 10}
    result = favano.simulate("favano", case(), **keys)
    natural = result.spec.problem.split in ("own", "column:town")
    assert result.spec.fleet.clients == (3 if natural else 20)
    losses = [row.loss for row in result.rows]
    assert losses[-1] < losses[0]


class Points(Dataset[tuple[Tensor, int]]):
    """Counts how often each sample is taken."""

    def __init__(self, rows: int) -> None:
        self.features, self.labels = pair(rows)
        self.taken: list[int] = []

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        self.taken.append(place)
        return self.features[place], int(self.labels[place])


def problem(train: object, **more: object) -> favano.Problem:
    given: dict[str, object] = {"test": pair(30), "batch_size": 8, **more}
    return favano.Problem(lambda: nn.Linear(5, 3), train=train, **given)  # type: ignore[arg-type]


def rows_of(train: object, **more: object) -> list[object]:
    """The history of a run on these data."""
    result = favano.simulate("favano", problem(train, **more), FLEET, **GIVEN)
    return list(unchained(result.rows))


def table() -> datasets.Dataset:
    features, labels = pair(120)
    who = [f"client {place % 4}" for place in range(120)]
    columns = {"who": who, "features": features.tolist(), "label": labels.tolist()}
    return datasets.Dataset.from_dict(columns)


def classes(*names: str) -> datasets.Dataset:
    """A table whose classes have names."""
    features = {**table().features, "label": datasets.ClassLabel(names=list(names))}
    return datasets.Dataset.from_dict(table().to_dict(), features=datasets.Features(features))


def test_all_forms_of_the_same_data_are_the_same_run() -> None:
    features, labels = pair(120)
    expected = rows_of((features, labels), split="iid")
    points = Points(120)
    assert rows_of(points, split="iid") == expected
    assert points.taken == list(range(120))
    assert rows_of(TensorDataset(features, labels), split="iid") == expected
    assert rows_of((features.numpy(), labels.numpy()), split="iid") == expected
    assert rows_of([features, labels], split="iid") == expected
    assert rows_of(table().remove_columns("who"), split="iid") == expected
    assert rows_of(table(), split="iid") == expected
    assert rows_of(classes("a", "b", "c"), split="iid") == expected
    renamed = table().rename_columns({"features": "a", "label": "b"})
    assert rows_of(renamed, split="iid", columns=("a", "b")) == expected
    rows = StackDataset(a=list(features), b=labels.tolist())  # type: ignore[arg-type]
    assert rows_of(rows, split="iid", columns=("a", "b")) == expected


def test_arrays_as_they_come() -> None:
    """Each has the numbers that NumPy or pandas sees in it."""
    x, y = (tensor.numpy() for tensor in pair(12))
    frame = pandas.DataFrame(x, index=range(12, 0, -1))
    for train in (
        (x[::-1], y[::-1]),
        (x[:, ::-1], y),
        (x.astype(">f4"), y.astype(">i2")),
        (np.ma.masked_array(x), np.ma.masked_array(y, mask=np.zeros(12, bool))),
        (frame, pandas.Series(y, index=range(12, 0, -1))),
        (frame[[3, 0, 1, 2, 4]], pandas.Series(y)),
        (torch.from_numpy(x).requires_grad_(), y.astype(np.uint8)),
        (x, y.astype(np.uint16)),
        (x, torch.from_numpy(y).to(torch.uint32)),
        (x, y.astype(np.uint64)),
    ):
        given = problem(train, split="iid")
        tensors = read_data(given).train
        inputs = train[0].detach() if isinstance(train[0], Tensor) else train[0]
        assert np.array_equal(tensors.inputs, inputs)
        assert (tensors.targets.dtype, tensors.targets.tolist()) == (torch.int64, list(train[1]))
        assert not tensors.inputs.requires_grad
        favano.simulate("favano", given, favano.Fleet(clients=2), **GIVEN)


def test_what_a_data_set_draws_is_the_same_in_all_runs_of_a_problem() -> None:
    generator = torch.Generator().manual_seed(0)

    class Noisy(Points):
        def __getitem__(self, place: int) -> tuple[Tensor, int]:
            features, label = super().__getitem__(place)
            return features + torch.randn(5, generator=generator), label

    points = Noisy(120)
    given = problem(points, split="iid")
    results = [favano.simulate("favano", given, FLEET, **GIVEN) for _ in range(2)]
    assert results[0].rows == results[1].rows
    favano.plan("favano", given, FLEET, **GIVEN)
    assert points.taken == list(range(120))
    other = favano.simulate("favano", problem(points, split="iid"), FLEET, **GIVEN)
    assert other.rows[-1].loss != results[0].rows[-1].loss


def test_samples_pass_through_the_transform_of_their_data_set() -> None:
    def doubled(batch: dict[str, list[list[float]]]) -> dict[str, object]:
        return {"x": [2 * torch.tensor(row) for row in batch["features"]], "y": batch["label"]}

    data = read_data(problem(table().with_transform(doubled), split="column:who"))
    assert torch.equal(data.train.inputs, 2 * pair(120)[0])
    assert data.train.targets.tolist() == pair(120)[1].tolist()
    assert data.owners["who"].tolist() == [place % 4 for place in range(120)]


def test_all_forms_of_the_same_split_are_the_same_run(tmp_path: Path) -> None:
    features, labels = pair(120)
    owner = torch.arange(120) % 4
    lists = [torch.nonzero(owner == client).flatten().numpy() for client in range(4)]
    expected = rows_of((features, labels), split=lists)
    assert rows_of(table(), split="column:who") == expected
    np.save(tmp_path / "owners.npy", owner.numpy())
    assert rows_of((features, labels), split=f"file:{tmp_path / 'owners.npy'}") == expected
    by_client = read_data(problem([(features[part], labels[part]) for part in lists]))
    tables = read_data(problem([table().select(part) for part in lists]))
    assert torch.equal(tables.train.inputs, by_client.train.inputs)
    assert tables.traits.owners["own"].tolist() == by_client.traits.owners["own"].tolist()
    assert by_client.traits.owners["own"].tolist() == sorted(owner.tolist())
    assert torch.equal(by_client.train.inputs[:30], features[lists[0]])


def test_fewer_clients_than_the_data_have() -> None:
    parts = [pair(12), pair(30), pair(7), pair(25), pair(9), pair(14)]
    result = favano.simulate("favano", problem(parts), **GIVEN)
    assert result.spec.fleet.clients == 6
    some = favano.simulate("favano", problem(parts), FLEET, **GIVEN)
    assert some.spec.fleet.clients == 4
    assert some.rows[-1].loss != result.rows[-1].loss
    plan = favano.plan("favano", problem(parts), **GIVEN)
    assert plan.planned.fleet.clients == 6


def test_few_clients_are_all_selected() -> None:
    keys: Keys = {"local_steps": 2, "horizon": 70.0}
    result = favano.simulate("favano", problem([pair(12), pair(30)]), **keys)
    assert result.spec.clock.selected == 2


def test_weights_by_samples_follow_the_split() -> None:
    parts = problem([pair(12), pair(30), pair(7)])
    planned = favano.plan(favano.FedAvg(sample_weights=True), parts, **GIVEN).planned
    assert planned.method.context.samples.tolist() == [12, 30, 7]


def test_named_data_in_lists() -> None:
    lists = [np.arange(10), np.arange(100, 300), np.arange(500, 600)]
    given = favano.Problem(dataset="digits", split=lists, batch_size=8)
    result = favano.simulate("favano", given, **GIVEN)
    assert (result.spec.problem.split, result.spec.fleet.clients) == ("own", 3)


def test_named_data_by_a_file(tmp_path: Path) -> None:
    """The file is about all training samples, also if some of them are held out."""
    np.save(tmp_path / "owners.npy", np.arange(1437) % 6)
    split = f"file:{tmp_path / 'owners.npy'}"
    given = favano.Problem(dataset="digits", split=split, batch_size=8, holdout=300)
    assert favano.simulate("favano", given, **GIVEN).spec.fleet.clients == 6


@pytest.mark.slow
def test_arrays_larger_than_memory_are_never_copied(tmp_path: Path) -> None:
    """The file has no blocks but those that are written; reading it all would take a while."""
    rows, width = 2**20, 2**14
    path = tmp_path / "large.npy"
    large = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(rows, width))  # 64 GiB
    large[:: 2**17, :5] = 1.0
    large.flush()
    mapped = np.load(path, mmap_mode="r")
    labels = np.arange(rows) % 3

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.output = nn.Linear(5, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            logits: Tensor = self.output(inputs[:, :5])
            return logits

    test = (mapped[:6], labels[:6])
    lists = [np.arange(client, rows, 2**17) for client in range(4)]
    given = favano.Problem(First, train=(mapped, labels), test=test, split=lists, batch_size=2)
    assert read_data(given).train.inputs.data_ptr() == mapped.ctypes.data
    result = favano.simulate("favano", given, FLEET, **GIVEN)
    assert result.rows[-1].loss != result.rows[0].loss


def table_of_images(images: list[Image.Image]) -> datasets.Dataset:
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    columns = {"image": images, "label": [place % 2 for place in range(len(images))]}
    return datasets.Dataset.from_dict(columns, features=features)


BYTES = np.array([[0, 51], [102, 255]], np.uint8)  # (H, W): 0, 0.2, 0.4 and 1
COLOURS = np.stack([BYTES, BYTES.T, 255 - BYTES], axis=-1)  # (H, W, C)
CLEAR = np.dstack([COLOURS, BYTES])


def palette() -> Image.Image:
    """Black, and a colour whose place in the list is not its brightness."""
    image = Image.fromarray(np.array([[0, 1], [1, 0]], np.uint8), "P")
    image.putpalette([0, 0, 0, 255, 51, 0])
    return image


IMAGES: dict[str, tuple[Image.Image, object]] = {
    "L": (Image.fromarray(BYTES), [[[0, 0.2], [0.4, 1]]]),
    "1": (Image.fromarray(BYTES > 100), [[[0, 0], [1, 1]]]),
    "I;16": (Image.fromarray(BYTES.astype(np.uint16) * 257), [[[0, 0.2], [0.4, 1]]]),
    "P": (palette(), [[[0, 1], [1, 0]], [[0, 0.2], [0.2, 0]], [[0, 0], [0, 0]]]),
    "RGB": (Image.fromarray(COLOURS), COLOURS.transpose(2, 0, 1) / 255),
    "RGBA": (Image.fromarray(CLEAR), CLEAR.transpose(2, 0, 1) / 255),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_images_of_all_kinds_are_from_0_to_1(kind: str) -> None:
    image, expected = IMAGES[kind]
    assert image.mode == kind
    images = table_of_images([image, image])
    inputs = read_data(problem(images, test=images, split="iid")).train.inputs
    assert inputs.dtype == torch.float32
    assert np.array_equal(inputs, np.asarray([expected, expected], np.float32))


def test_images_of_one_bit_beside_bytes() -> None:
    images = table_of_images([IMAGES["L"][0], IMAGES["1"][0]])
    inputs = read_data(problem(images, test=images, split="iid")).train.inputs
    assert np.array_equal(inputs, np.asarray([IMAGES["L"][1], IMAGES["1"][1]], np.float32))


def test_collate_is_called_once_for_all_samples() -> None:
    calls = []

    def pad(samples: list[tuple[list[float], int]]) -> tuple[Tensor, Tensor]:
        calls.append(len(samples))
        rows = [torch.tensor([*numbers, *[0.0] * (5 - len(numbers))]) for numbers, _ in samples]
        return torch.stack(rows), torch.tensor([label for _, label in samples])

    samples = [([1.0] * (1 + place % 5), place % 3) for place in range(40)]
    alike = read_data(problem(samples, test=samples[:6], collate=pad, split="iid"))
    parts = read_data(problem([samples[:30], samples[30:]], test=samples[:6], collate=pad))
    assert calls == [40, 6, 40, 6]
    assert torch.equal(alike.train.inputs, parts.train.inputs)
    assert parts.traits.owners["own"].tolist() == [0] * 30 + [1] * 10
    assert alike.traits.owners == {}


def test_targets_of_any_shape_are_in_the_batches() -> None:
    """Numbers, and a class per position of a sequence."""
    features, _ = pair(40)
    texts = torch.arange(160).view(40, 4) % 3
    spec = complete(clients=4, selected=2, split="iid", batch_size=8)
    for targets, classes in ((features.cumsum(1), 0), (texts, 3)):
        both = (features, targets)
        given = problem(both, test=both, loss=nn.functional.mse_loss, split="iid")
        data = read_data(given)
        task = make_task(spec, 0, make_fleet(spec, 0), own_samples(data, "cpu", given.loss))
        batch, drawn = task.batch(0, 0, torch.float32)
        places = [int((features == sample).all(1).nonzero()) for sample in batch]
        assert torch.equal(drawn, targets[places])
        assert data.classes == classes
        rule = r"^split=two-class: deals out by class; targets that are not one class per sample"
        with pytest.raises(BadInput, match=rule):
            rows_of(both, test=both, loss=nn.functional.mse_loss, split="two-class")


def failing(samples: list[object]) -> object:
    raise KeyError("length")


def too_few(samples: list[object]) -> object:
    return torch.zeros(3, 5), torch.zeros(3)


class MaskedPoints(Points):
    """A data set of masked arrays; the mask of sample 2 hides something."""

    def __getitem__(self, place: int) -> Any:
        features, label = super().__getitem__(place)
        return np.ma.masked_array(features.numpy(), mask=place == 2), label


class Torn(Points):
    """A data set with a sample that cannot be read."""

    def __init__(self) -> None:
        super().__init__(6)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        if place == 2:
            raise OSError("cannot be read\nat all")
        return super().__getitem__(place)


FLOATS = [Image.fromarray(np.float32(BYTES)), Image.fromarray(np.float32(BYTES))]
X, Y = pair(12)
MASKED = np.ma.masked_array(X.numpy(), mask=X.numpy() > 1)
WORDS = np.array(["cat", "dog"])[Y % 2]
REFUSED: list[tuple[dict[str, object], str]] = [
    ({"train": []}, r"train=\[\]: need the data of at least one client$"),
    ({"train": [(X, Y), (X[:0], Y[:0])]},
     r"train\[1\]=no samples: need at least one for each client$"),
    ({"train": [(X, Y), (X[:, :3], Y)]},
     r"train\[1\]=torch.float32 \(3,\): need samples as those of client 0, torch.float32 \(5,\)$"),
    ({"train": [(X, Y), X]}, r"train\[1\]=Tensor: need a pair \(samples, targets\) of "),
    ({"train": [(X, Y)], "split": "iid"}, "split=iid: train is a list per client; remove "),
    ({"train": (X, Y), "split": []}, r"split=\[\]: need a name, or a list with the numbers "),
    ({"train": (X, Y), "split": [[0, 1], ["a"]]}, r"split\[1\]=\['a'\]: need a name, or a list "),
    ({"train": (X, Y), "split": [[0, 1], [12]]},
     r"split=own: client 1 has samples outside 0\.\.11$"),
    ({"train": (X, Y), "split": [[0, 1], []]}, "split=own: client 1 has no samples: need "),
    ({"train": (X, Y), "split": [[0, 1], [1]]}, "split=own: client 1 has samples that are in "),
    ({"train": (X, Y), "split": "column:who"}, "split=column:who: is no column of words"),
    ({"train": (X, Y), "split": "file:nowhere.npy"}, "split=file:nowhere.npy: no such file$"),
    ({"train": (X.numpy().astype(np.uint16), Y), "test": (X.numpy().astype(np.uint16), Y)},
     "train=torch.uint16: need a type whose rows PyTorch can pick: "),
    ({"train": (X.to_sparse(), Y)}, r"train=torch.sparse_coo: need dense tensors, as "),
    ({"train": table().rename_column("features", "a")},
     r"train=columns who, a, label: name those of inputs and targets, as columns=\('x', 'y'\) or "),
    ({"train": table(), "split": "column:features", "columns": ("features", "label")},
     r"split=column:features: holds float64 \(120, 5\): need a word or a whole number per sample$"),
    ({"train": table(), "columns": ("features", "b")},
     "train=columns who, features, label: name those of inputs and targets"),
    ({"train": table(), "columns": ("who", "label")}, "train=column who: need numbers, the same "),
    ({"train": [(X[0], 1)], "collate": failing},
     "collate=failing: fails on the samples of train: KeyError: 'length' \\(.*line"),
    ({"train": Points(9), "collate": too_few},
     "collate=too_few: makes 3 inputs of 9 samples of train: need one of each$"),
    ({"train": table().to_iterable_dataset()},
     "train=IterableDataset: need a data set with a length, not a stream, a set of sp"),
    ({"train": datasets.DatasetDict({"train": table()})},
     "train=DatasetDict: need a data set with a length, not a stream, a set of sp"),
    ({"train": table().data.table}, "train=Table: need a data set with a length, not a stream, "),
    ({"train": 3, "collate": failing}, "train=int: need a list or data set of samples$"),
    ({"train": [(X[:6], Y[:5]), (X[6:], Y[5:])]},
     r"train\[0\]=6, 5: need equally many rows and labels$"),
    ({"train": (X[:0], Y[:0])}, "train=no samples: need at least one$"),
    ({"train": (X.clone().fill_(torch.nan), Y)}, "train=NaN or infinity: need inputs that are "),
    ({"train": (X, Y), "test": (torch.cat([X, X / 0]), torch.cat([Y, Y]))}, "test=NaN or infinity"),
    ({"train": (X, X.sum(1)), "test": (X, X.sum(1) / 0), "loss": nn.functional.mse_loss},
     "test=NaN or infinity: need targets that are finite numbers$"),
    ({"train": table_of_images(FLOATS)},
     "train=image 0 of column image: is of Pillow's kind F: need 1, 8 or 16 bits per colour; conv"),
    ({"train": table_of_images([IMAGES["L"][0], IMAGES["RGB"][0]])},
     r"train=image 1 of column image: has shape \(3, 2, 2\), the first \(1, 2, 2\): need "),
    ({"train": table_of_images(FLOATS).cast_column("image", datasets.Image(decode=False))},
     "train=image 0 of column image: need an image; datasets.Image"),
    ({"train": (MASKED, Y)}, "train=inputs with a mask: need numbers everywhere: fill in what is "),
    ({"train": (X, np.ma.masked_array(Y, mask=Y == 1))}, "train=targets with a mask: need "),
    ({"train": MaskedPoints(12)}, "train=sample 2 with a mask: need numbers every"),
    ({"train": (X, WORDS)}, "train=targets of <U3: need arrays of numbers of a type that PyTorch "),
    ({"train": (X, WORDS.tolist())}, "train=targets in list: need arrays of numbers of a type "),
    ({"train": (X.numpy().astype(object), Y)}, "train=inputs of object: need arrays of numbers "),
    ({"train": (scipy.sparse.csr_array(X.numpy()), Y)}, r"train=inputs in csr_array: need dense "),
    ({"train": (X.to("meta"), Y)}, "train=nested, quantised or meta inputs: need plain tensors"),
    ({"train": pandas.DataFrame(X.numpy())}, "train=columns 0, 1, .*: name those of inputs and "),
    ({"train": DataLoader(TensorDataset(X, Y))}, r"train=DataLoader: need its data set, as loader"),
    ({"train": TensorDataset(X, X, Y)}, r"train=tuple of 3: need a pair \(samples, targets\) of "),
    ({"train": [(row, int(label)) for row, label in zip(X, Y, strict=True)]},
     r"train\[0\]=numbers: need rows of both; a list of samples needs collate=torch.utils.data.de"),
    ({"train": (X, Y[:, None]), "test": (X, Y[:, None]), "split": [[0, 1], [2]]},
     r"train=labels of shape \(1,\): need one class per sample, as y.squeeze\(1\), or y.argmax"),
    ({"train": datasets.Dataset.from_dict({"x": [[1.0]], "when": [datetime(2020, 1, 1)]})},
     "train=column when: need numbers, the same number of them in all rows; otherwise give "),
    ({"train": datasets.Dataset.from_dict({"x": [None, [1.0, 2.0]], "y": [0, 1]})},
     "train=column x: need numbers, the same number of them in all rows; otherwise give "),
    ({"train": classes("cat", "dog", "eel"), "test": classes("dog", "eel", "cat")},
     "test=classes dog, eel, cat: need those of the first data set, in its order: cat, dog, eel$"),
    ({"train": [classes("a", "b", "c"), classes("a", "b", "c"), classes("c", "b", "a")]},
     r"train\[2\]=classes c, b, a: need those of the first data set, in its order: a, b, c$"),
    ({"train": Torn()}, r"train=Torn: \[2\] raises OSError: cannot be read \(.*line"),
    ({"train": (X, Y), "columns": ("a", "b")}, r"columns=\('a', 'b'\): is for data sets that "),
    ({"train": (X, Y), "split": np.arange(12).reshape(6, 2)}, "split=ndarray: need a name, or a "),
    ({"train": (X, Y), "split": [np.ma.masked_array([0, 1], mask=[True, False])]},
     r"split\[0\]=\[-- 1\]: need a name, or a list with the numbers "),
    ({"train": Subset(Points(9), [])}, "train=no samples: need at least one$"),
    ({"train": (X, Y), "split": [torch.ones(12).bool()]}, r"split\[0\]=Tensor: need a name, or "),
    ({"train": [(X, Y), (X, Y)], "test": [(X, Y)]},
     "test=a list of 1 clients: need the same clients in train, which lists 2, or one test set "),
    ({"train": (X, Y), "test": [(X, Y), (X, Y)], "split": "iid"},
     "test=a list of 2 clients: need the same clients in train, which lists 0, or one test set "),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_refused_in_one_sentence(given: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}") as refused:
        favano.simulate("favano", problem(**given), **GIVEN)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("key", ["collate", "columns"])
def test_what_is_for_own_data_is_refused(key: str) -> None:
    given = {"collate": failing, "columns": ("x", "y")}[key]
    with pytest.raises(BadInput, match=rf"^{key}=.*: requires train and test, your own data$"):
        favano.Problem(dataset="digits", **{key: given})  # type: ignore[arg-type]


CELLS: list[tuple[list[object], list[int]]] = [
    ([-7, 4, -1, -2], [0, 1, -1, 2]),  # hashes, say
    ([3, None, 5, 3], [0, -1, 1, 0]),
    (["a", None, "b", ""], [0, -1, 1, -1]),
    (["-1", " ", "b", "-7"], [-1, -1, 0, 1]),
]


@pytest.mark.parametrize(("cells", "expected"), CELLS, ids=[str(cells) for cells, _ in CELLS])
def test_a_column_has_the_same_clients_in_tables_and_in_parquet_files(
    cells: list[object], expected: list[int]
) -> None:
    """The numbers of the clients may differ, but not who has which samples."""
    rows = datasets.Dataset.from_dict({"x": pair(4)[0].tolist(), "y": [0] * 4, "who": cells})
    own = read_data(problem(rows, split="column:who")).owners["who"].tolist()
    files = owner_codes({"train": rows.select_columns(["who"]).data.table})["train"]["who"].tolist()
    for codes in (own, files):
        assert [code == -1 for code in codes] == [code == -1 for code in expected]
        assert len(set(zip(codes, expected, strict=True))) == len(set(expected)) == len(set(codes))


def test_samples_of_no_client_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    names = [None, "a", "b", "b"] * 30
    rows = table().remove_columns("who").add_column("who", names)
    said = "split={} leaves out {} of 120 training samples, which no client has"
    for train, split, left_out in (
        (rows, "column:who", 30),
        (pair(120), [np.arange(20), np.arange(50, 57)], 93),
    ):
        keys: Keys = {**GIVEN, "seeds": 2}
        favano.compare(["favano", "fedavg"], problem(train, split=split), **keys)
        how = split if isinstance(split, str) else "own"
        assert caplog.messages.count(said.format(how, left_out)) == 1


def test_a_column_says_whose_the_test_samples_are() -> None:
    """The clients are in another order there, and one of them is in the test data alone."""
    tested = (
        table()
        .select([3, 2, 7, 0, 1])
        .map(lambda row, place: {"who": "apart" if place == 4 else row["who"]}, with_indices=True)
    )
    data = read_data(problem(table(), test=tested, split="column:who"))
    names = dict(zip(table()["who"], data.owners["who"].tolist(), strict=True))
    assert data.test_owners["who"][:4].tolist() == [names[f"client {k}"] for k in (3, 2, 3, 0)]
    assert data.test_owners["who"][4] not in names.values()
    assert data.traits.clients_by("column:who") == 4


def test_the_only_two_columns_beside_that_of_the_split() -> None:
    """Whatever they are called: inputs first, as in the table."""
    named = table().rename_columns({"features": "signal", "label": "kind"})
    columns = [column for column in named.column_names if column in ("signal", "kind", "who")]
    data = read_data(problem(named.select_columns(columns), split="column:who"))
    assert torch.equal(data.train.inputs, read_data(problem(table())).train.inputs)


def test_a_collate_that_makes_more_than_there_is_is_refused() -> None:
    def twice(samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        inputs, labels = (torch.stack(part) for part in zip(*samples, strict=True))
        return inputs.repeat(2, 1), labels.repeat(2)

    rule = "^collate=twice: makes 240 inputs of 120 samples of train: need one of each$"
    with pytest.raises(BadInput, match=rule):
        read_data(problem(TensorDataset(*pair(120)), collate=twice))


def test_clients_have_inputs_of_one_type() -> None:
    features, labels = pair(20)
    rule = r"^train\[1\]=torch.float64 \(5,\): need samples as those of client 0, torch.float32"
    with pytest.raises(BadInput, match=rule):
        read_data(problem([(features, labels), (features.double(), labels)]))


def test_a_column_of_other_numbers_names_no_clients() -> None:
    weights = table().add_column("weight", [0.5] * 120)
    rule = r"^split=column:weight: holds float64 \(120,\): need a word or a whole number"
    with pytest.raises(BadInput, match=rule):
        read_data(problem(weights, split="column:weight"))
