"""The user's own data as tensors: arrays, frames, PyTorch or Hugging Face sets, by client too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import reduce
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, default_collate

from favano.data import Traits
from favano.data.natural import OWN, file_owners, numbered, owners_of
from favano.data.pixels import unit_pixels, white_of
from favano.errors import BadInput, format_error, require
from favano.metrics import accuracy
from favano.records import ACCURACY
from favano.rng import Stream, permutation
from favano.run.data_digest import parts_of
from favano.run.problem import Problem, is_by_client
from favano.run.samples import Samples, check_device, traits_of
from favano.run.tables import is_frame, missing_as_nobody
from favano.run.targets import as_targets
from favano.training import Calling, Field, Loss
from favano.training.calling import packed
from favano.types import Ints

Collate: TypeAlias = Callable[[list[Any]], Any]
Columns: TypeAlias = tuple[str | Sequence[str], str]
Names: TypeAlias = npt.NDArray[np.generic]  # of clients, (N,): words or whole numbers

_INPUTS = ("image", "img", "x", "input", "inputs", "features", "input_ids")
_TARGETS = ("label", "labels", "y", "target", "targets", "character")
_BESIDE_TOKENS = ("attention_mask", "token_type_ids")  # inputs as well, where there are tokens
_PAIR = "need a pair (samples, targets) of tensors or arrays, a data set, or a list per client"
_NUMBERS = (
    "need arrays of numbers of a type that PyTorch has; if the classes are words, number them, "
    "alike in train and test"
)
_MASKED = "need numbers everywhere: fill in what is masked, or remove those samples"
_WIDE = (torch.uint16, torch.uint32, torch.uint64)  # PyTorch picks no rows of these types


class Part(NamedTuple):
    """Training or test data, and whose they are."""

    inputs: Tensor  # (N, ...); several side by side, if there are `fields`
    targets: Tensor  # (N, ...)
    names: Mapping[str, Names]  # of the samples' clients, by column
    classes: tuple[str, ...] = ()  # their names, if the data set has them
    fields: tuple[Field, ...] = ()


class Pair(NamedTuple):
    """Inputs and targets of some samples."""

    inputs: Tensor
    targets: Tensor
    fields: tuple[Field, ...]


class OwnData(NamedTuple):
    """All data of a problem, where the user has them: nothing is copied that need not be."""

    train: Part
    test: Part
    classes: int  # 0: the targets are not classes
    owners: Mapping[str, Ints]  # of the training samples, by column
    test_owners: Mapping[str, Ints]  # numbered like these

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.train.inputs.shape[1:])

    @property
    def traits(self) -> Traits:
        """What a split may know of the training data."""
        return traits_of(self.train.targets, self.classes, self.owners)


_READ: WeakKeyDictionary[Problem, OwnData] = WeakKeyDictionary()


def read_data(problem: Problem) -> OwnData:
    """The caller's data, read once: what they draw at random is the same in all runs."""
    if problem not in _READ:
        _READ[problem] = _read(problem)
    return _READ[problem]


def _read(problem: Problem) -> OwnData:
    """The data of a problem; whatever does not fit together is refused."""
    split = problem.split if isinstance(problem.split, str) else ""
    reader = _Reader(problem.collate, problem.columns, split)
    rule = "is for data sets that have columns, without collate; remove it"
    if problem.columns is not None:
        named = _has_columns(problem.train) or _has_columns(problem.test)
        require(named and problem.collate is None, "columns", problem.columns, rule)
    mine, theirs = reader.read("train", problem.train), reader.read("test", problem.test)
    _check_classes("test", mine, theirs)
    for name, (inputs, *_) in (("train", mine), ("test", theirs)):
        require(len(inputs) > 0, name, "no samples", "need at least one")
        rule = "need a type whose rows PyTorch can pick: uint8, int16, int32, int64 or floats"
        require(inputs.dtype not in _WIDE, name, inputs.dtype, rule)
        _check_finite(name, inputs, "inputs")
    rule = f"need inputs of one type, those of train are {mine.inputs.dtype}"
    require(theirs.inputs.dtype == mine.inputs.dtype, "test", theirs.inputs.dtype, rule)
    rule = f"need the inputs of train, {_named(mine.fields)}"
    require(theirs.fields == mine.fields, "test", _named(theirs.fields), rule)
    targets = as_targets(mine.targets, theirs.targets, mine.inputs.dtype, problem.loss)
    train, test = mine._replace(targets=targets.train), theirs._replace(targets=targets.test)
    for name, part in (("train", train), ("test", test)):
        _check_finite(name, part.targets, "targets")
    names = {**mine.names, **listed_owners(problem, len(mine.targets))}
    owners, test_owners = _numbered(names, theirs.names)
    owners |= file_owners(split, len(mine.targets))
    data = OwnData(train, test, targets.classes, owners, test_owners)
    return _hold_out(data, problem.holdout) if problem.holdout else data


def _hold_out(data: OwnData, count: int) -> OwnData:
    """Random training samples instead of those for testing, as `favano.data` holds them out."""
    size = len(data.train.targets)
    rule = f"need 1..{size - 1}, or 0 for your test data"
    require(0 < count < size, "holdout", count, rule)
    order = permutation(0, Stream.HOLDOUT, size)
    held, kept = np.sort(order[:count]), np.sort(order[count:])

    def some(rows: Ints) -> tuple[Part, dict[str, Ints]]:
        train, place = data.train, torch.from_numpy(rows)
        names = {column: names[rows] for column, names in train.names.items()}
        part = Part(train.inputs[place], train.targets[place], names, train.classes)
        return part, {column: who[rows] for column, who in data.owners.items()}

    (train, owners), (test, test_owners) = some(kept), some(held)
    return OwnData(train, test, data.classes, owners, test_owners)


def read_source(name: str, given: object) -> tuple[Tensor, Tensor]:
    """Inputs and targets of one source: a pair, a PyTorch data set, or a Hugging Face data set."""
    part = _Reader(None, None, "").part(name, given)
    require(len(part.inputs) > 0, name, "no samples", "need at least one")
    require(not part.fields, name, _named(part.fields), "need one tensor of inputs on a node")
    return part.inputs, part.targets


def _named(fields: Sequence[Field]) -> str:
    """Several inputs in words."""
    return ", ".join(f"{name} {shape} {dtype}" for name, shape, dtype in fields) or "one tensor"


def _check_finite(name: str, numbers: Tensor, what: str) -> None:
    """Refuse NaN and infinity; of more than 1 GiB only a part is looked at."""
    for part in parts_of(numbers) if numbers.is_floating_point() else ():
        finite = bool(numbers[part].isfinite().all())
        require(finite, name, "NaN or infinity", f"need {what} that are finite numbers")


def _numbered(
    mine: Mapping[str, Names], theirs: Mapping[str, Names]
) -> tuple[dict[str, Ints], dict[str, Ints]]:
    """Numbers for the clients of training and test samples, the same in both, by column."""
    owners: dict[str, Ints] = {}
    test_owners: dict[str, Ints] = {}
    for column, names in mine.items():
        numbers = numbered(np.concatenate([names, theirs.get(column, names[:0])]))
        owners[column] = numbers[: len(names)]
        if column in theirs:
            test_owners[column] = numbers[len(names) :]
    if OWN in theirs:
        clients, tested = (
            int(part[OWN].max()) + 1 if OWN in part else 0 for part in (owners, theirs)
        )
        rule = f"need the same clients in train, which lists {clients}, or one test set for all"
        require(clients == tested, "test", f"a list of {tested} clients", rule)
    return owners, test_owners


def listed_owners(problem: Problem, count: int) -> dict[str, Ints]:
    """Whose the `count` training samples are, if the split lists them."""
    return {} if problem.parts is None else {OWN: owners_of(problem.parts, count)}


def own_samples(data: OwnData, device: str, loss: Loss | None = None) -> Samples:
    """The data on the device of a run."""
    on = check_device(device)
    if on.type == "cuda":
        _check_memory(data, on)
    (inputs, targets, *_), (test_inputs, test_targets, *_) = data.train, data.test
    return Samples(
        inputs.to(on),
        targets.to(on),
        test_inputs.to(on),
        test_targets.to(on),
        data.classes,
        loss=loss or functional.cross_entropy,
        owners=data.owners,
        test_owners=data.test_owners,
        metrics={ACCURACY.name: accuracy} if data.classes else {},
        read=(inputs, targets, test_inputs, test_targets),
        calling=Calling(data.train.fields),
        open=frozenset({"metrics"} if loss else {"loss", "metrics"}),
        own=True,
    )


def _check_memory(data: OwnData, device: torch.device) -> None:
    """Refuse data that a GPU cannot hold; on a CPU, arrays may be larger than memory."""
    tensors = [tensor for part in (data.train, data.test) for tensor in part[:2]]
    size, (free, _) = sum(tensor.nbytes for tensor in tensors), torch.cuda.mem_get_info(device)
    rule = f"need at most {free / 2**30:.1f} GiB, the free memory of {device}, or device=cpu"
    require(size <= free, "train", f"{size / 2**30:.1f} GiB", rule)


class _Reader(NamedTuple):
    """Reads what a user may give for `train` and `test`."""

    collate: Collate | None
    columns: Columns | None
    split: str

    def read(self, name: str, given: object) -> Part:
        """Inputs and targets; a list holds the data of one client after the other."""
        if not is_by_client(given, self.collate):
            return self.part(name, given)
        assert isinstance(given, list)
        require(len(given) > 0, name, "[]", "need the data of at least one client")
        if self.collate is not None:
            samples = [_samples(f"{name}[{client}]", data) for client, data in enumerate(given)]
            sizes = [len(own) for own in samples]
            _check_sizes(name, sizes)
            inputs, targets, fields = self._collated(name, [x for own in samples for x in own])
            classes: tuple[str, ...] = ()
        else:
            parts = [self.part(f"{name}[{client}]", data) for client, data in enumerate(given)]
            sizes = [len(part.inputs) for part in parts]
            _check_sizes(name, sizes)
            for client, part in enumerate(parts):
                _check_classes(f"{name}[{client}]", parts[0], part)
                rule = f"need the inputs of client 0, {_named(parts[0].fields)}"
                alike = part.fields == parts[0].fields
                require(alike, f"{name}[{client}]", _named(part.fields), rule)
            classes, fields = parts[0].classes, parts[0].fields
            inputs = _joined(name, [part.inputs for part in parts])
            targets = _joined(name, [part.targets for part in parts])
        names = {OWN: np.repeat(np.arange(len(sizes)), sizes)}
        return Part(inputs, targets, names, classes, fields)

    def part(self, name: str, given: Any) -> Part:
        """The data of all clients, or of one."""
        if self.collate is not None:
            return _part(self._collated(name, _samples(name, given)), self._names(given))
        if hasattr(given, "column_names"):
            rule = "need a data set with a length, not a stream, a set of splits or a bare table"
            whole = _is_map_style(given) and hasattr(given, "with_format")
            require(whole, name, type(given).__name__, rule)
            if given.format["type"] == "custom":  # a transform, which only samples pass through
                return _part(self._stacked(name, given), self._names(given))
            columns = self._columns_of(name, list(given.column_names))
            pair = _chosen(name, columns, lambda column: _column(name, given, column))
            classes = tuple(getattr(given.features[columns[1]], "names", None) or ())
            return _part(pair, self._names(given), classes)
        if is_frame(given) or isinstance(given, Mapping):
            columns = self._columns_of(name, list(map(str, given)))
            pair = _chosen(name, columns, lambda column: _tensor(name, column, given[column]))
            return _part(pair, self._names(given))
        if isinstance(given, TensorDataset):
            given = given.tensors
        if not isinstance(given, tuple | list) and _is_map_style(given):
            return _part(self._stacked(name, given), {})
        return _part(self._pair(name, given), {})

    def _collated(self, name: str, samples: list[Any]) -> Pair:
        assert self.collate is not None
        return self._called(self.collate, name, samples)

    def _called(self, collate: Collate, name: str, samples: list[Any]) -> Pair:
        """What a collate function makes of all samples at once."""
        function = getattr(collate, "__name__", type(collate).__name__)
        try:
            made = collate(samples)
        except Exception as error:
            rule = f"fails on the samples of {name}: {format_error(error)}"
            raise BadInput("collate", function, rule) from error
        pair = self._pair(f"collate({name})", made)
        rule = (
            f"makes {len(pair.inputs)} inputs of {len(samples)} samples of {name}: need one of each"
        )
        require(len(pair.inputs) == len(samples), "collate", function, rule)
        return pair

    def _pair(self, name: str, given: object) -> Pair:
        """Inputs and targets, as a pair or as arrays by name."""
        if isinstance(given, Mapping):
            columns = self._columns_of(name, list(map(str, given)))
            return _chosen(name, columns, lambda column: _tensor(name, column, given[column]))
        return _pair(name, given)

    def _stacked(self, name: str, given: Any) -> Pair:
        """Inputs and targets of a data set whose samples are pairs, or dictionaries of columns."""
        samples = _samples(name, given)
        require(len(samples) > 0, name, "no samples", "need at least one")
        if isinstance(samples[0], Mapping):
            inputs, targets = self._columns_of(name, list(samples[0]))
            if not isinstance(inputs, str):
                kept = [{key: sample.get(key) for key in (*inputs, targets)} for sample in samples]
                return self._replace(columns=(inputs, targets))._called(default_collate, name, kept)
            samples = [(sample.get(inputs), sample.get(targets)) for sample in samples]
        for place, sample in enumerate(samples):
            masked = isinstance(sample, tuple | list) and any(map(np.ma.is_masked, sample))
            require(not masked, name, f"sample {place} with a mask", _MASKED)
        return self._called(default_collate, name, samples)

    def _columns_of(self, name: str, present: list[str]) -> Columns:
        """The columns of inputs and targets: named, of the usual names, or the only two.

        Beside tokens, the attention mask is an input, too.
        """
        rest = [column for column in present if column != self.split.removeprefix("column:")]
        usual = [[column for column in known if column in rest] for known in (_INPUTS, _TARGETS)]
        two = len(rest) == 2 and rest[1] not in _BESIDE_TOKENS
        guess: Sequence[str | Sequence[str]] = rest if two else []
        if all(usual):
            inputs, targets = (columns[0] for columns in usual)
            beside = [key for key in _BESIDE_TOKENS if key in rest and inputs == "input_ids"]
            guess = [[inputs, *beside] if beside else inputs, targets]
        chosen = self.columns or guess
        rule = "name those of inputs and targets, as columns=('x', 'y') or (['a', 'b'], 'y')"
        known = len(chosen) == 2 and isinstance(chosen[1], str) and bool(chosen[0])
        if known:
            first = [chosen[0]] if isinstance(chosen[0], str) else [*chosen[0]]
            known = {*first, chosen[1]} <= {*present} and len({*first}) == len(first)
            require(chosen[1] not in first, "columns", chosen[1], "is an input and the target")
        require(known, name, f"columns {', '.join(present)}", rule)
        return chosen[0], str(chosen[1])

    def _names(self, given: Any) -> dict[str, Names]:
        """The column that the split names."""
        kind, _, column = self.split.partition(":")
        known = given if is_frame(given) else getattr(given, "column_names", ())
        if kind != "column" or column not in known:
            return {}
        if is_frame(given):
            cells = given[column].to_numpy().tolist()
        else:
            cells = given.select_columns([column]).with_format(None)[:][column]
        values = np.asarray(missing_as_nobody(cells))
        rule = f"holds {values.dtype} {values.shape}: need a word or a whole number per sample"
        require(values.ndim == 1 and values.dtype.kind in "iuU", "split", self.split, rule)
        return {column: values}


def _check_sizes(name: str, sizes: list[int]) -> None:
    for client, size in enumerate(sizes):
        require(size > 0, f"{name}[{client}]", "no samples", "need at least one for each client")


def _check_classes(name: str, mine: Part, theirs: Part) -> None:
    """Refuse data sets that number the same classes differently."""
    alike = not (mine.classes and theirs.classes) or mine.classes == theirs.classes
    own, first = (", ".join(part.classes) for part in (theirs, mine))
    require(
        alike, name, f"classes {own}", f"need those of the first data set, in its order: {first}"
    )


def _joined(name: str, tensors: list[Tensor]) -> Tensor:
    for client, tensor in enumerate(tensors):
        first, own = tensors[0], f"{tensor.dtype} {tuple(tensor.shape[1:])}"
        alike = tensor.dtype == first.dtype and tensor.shape[1:] == first.shape[1:]
        rule = f"need samples as those of client 0, {first.dtype} {tuple(first.shape[1:])}"
        require(alike, f"{name}[{client}]", own, rule)
    return torch.cat(tensors)


def _has_columns(given: object) -> bool:
    parts = given if isinstance(given, list) else [given]
    return any(
        hasattr(part, "column_names")
        or is_frame(part)
        or isinstance(part, Mapping)
        or _has_dictionaries(part)
        for part in parts
    )


def _has_dictionaries(given: Any) -> bool:
    return _is_map_style(given) and len(given) > 0 and isinstance(given[0], Mapping)


def _is_map_style(given: object) -> bool:
    sized = hasattr(given, "__len__") and hasattr(given, "__getitem__")
    array = isinstance(given, Tensor | np.ndarray) or hasattr(given, "to_numpy")
    return sized and not (array or isinstance(given, str | Mapping))


def _samples(name: str, given: Any) -> list[Any]:
    """All samples of a list or a data set, each taken once."""
    require(_is_map_style(given), name, type(given).__name__, "need a list or data set of samples")
    return list(_each(name, given))


def _each(name: str, given: Any) -> Iterator[Any]:
    """One sample after the other."""
    for place in range(len(given)):
        try:
            sample = given[place]
        except Exception as error:
            raise BadInput(
                name, type(given).__name__, f"[{place}] raises {format_error(error)}"
            ) from error
        yield sample


def _part(pair: Pair, names: Mapping[str, Names], classes: tuple[str, ...] = ()) -> Part:
    return Part(pair.inputs, pair.targets, names, classes, pair.fields)


def _chosen(name: str, columns: Columns, column: Callable[[str], Tensor]) -> Pair:
    """Chosen columns: several with a number per sample are one matrix, others several inputs."""
    inputs, targets = columns
    if isinstance(inputs, str):
        return _checked(name, column(inputs), column(targets), ())
    parts = {key: column(key) for key in inputs}
    if all(part.ndim == 1 for part in parts.values()):
        kinds = [part.dtype for part in parts.values()]
        common = reduce(torch.promote_types, kinds)
        matrix = torch.stack([part.to(common) for part in parts.values()], dim=1)
        return _checked(name, matrix, column(targets), ())
    together, fields = packed(name, parts)
    return _checked(name, together, column(targets), fields)


def _pair(name: str, given: object) -> Pair:
    """Samples and targets as tensors; anything else is refused."""
    if isinstance(given, DataLoader):
        rule = "need its data set, as loader.dataset; batch_size= and collate= are the problem's"
        raise BadInput(name, "DataLoader", rule)
    if not (isinstance(given, tuple | list) and len(given) == 2):
        size = f" of {len(given)}" if isinstance(given, tuple | list) else ""
        raise BadInput(name, f"{type(given).__name__}{size}", _PAIR)
    several = _several(given[0], given[1])
    if several:
        parts = {key: _tensor(name, f"inputs {key}", part) for key, part in several.items()}
        rows = all(part.ndim > 0 for part in parts.values())
        require(rows, name, "numbers", "need rows of all inputs")
        inputs, fields = packed(name, parts)
    else:
        inputs, fields = _tensor(name, "inputs", given[0]), ()
    return _checked(name, inputs, _tensor(name, "targets", given[1]), fields)


def _several(given: object, targets: object) -> dict[str, object]:
    """Several inputs by their names or positions; nothing if there is one.

    A tuple of arrays is several inputs if each has a row for every target, unless it is itself one
    row after the other.
    """
    if isinstance(given, Mapping):
        return {str(key): part for key, part in given.items()}
    several = isinstance(given, tuple) and all(hasattr(part, "dtype") for part in given)
    if not (several and isinstance(given, tuple) and isinstance(targets, Sized)):
        return {}
    if len(given) == len(targets):
        return {}
    rows = {len(part) if getattr(part, "ndim", 0) else -1 for part in given}
    return dict(zip(map(str, range(len(given))), given, strict=True)) if len(rows) == 1 else {}


def _checked(name: str, inputs: Tensor, targets: Tensor, fields: tuple[Field, ...]) -> Pair:
    """Refuse inputs and targets that are not rows, or not as many."""
    rule = "need rows of both; a list of samples needs collate=torch.utils.data.default_collate"
    require(inputs.ndim > 0 and targets.ndim > 0, name, "numbers", rule)
    rule = "need ordinary tensors: make them, or clone them, outside of inference_mode"
    ordinary = not (inputs.is_inference() or targets.is_inference())
    require(ordinary, name, "inference tensors", rule)
    equal = len(inputs) == len(targets)
    require(equal, name, f"{len(inputs)}, {len(targets)}", "need equally many rows and labels")
    return Pair(inputs, targets, fields)


def _tensor(name: str, what: str, given: Any) -> Tensor:
    """A tensor on the same memory, also of a file that is mapped read-only.

    NumPy's arrays with negative strides and of other byte orders are copied: PyTorch has neither.
    """
    kind = f"{what} in {type(given).__name__}"
    require(not hasattr(given, "toarray"), name, kind, "need dense arrays, as x.toarray()")
    values = given.to_numpy() if hasattr(given, "to_numpy") else given  # of data frames
    require(not np.ma.is_masked(values), name, f"{what} with a mask", _MASKED)
    if isinstance(values, np.ndarray):
        kind = f"{what} of {values.dtype}"
        if min(values.strides, default=0) < 0 or not values.dtype.isnative:
            values = np.array(values, values.dtype.newbyteorder("="))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise BadInput(name, kind, _NUMBERS) from None
    odd = tensor.is_nested or tensor.is_quantized or tensor.is_meta
    require(not odd, name, f"nested, quantised or meta {what}", "need plain tensors of numbers")
    dense = tensor.layout == torch.strided
    require(dense, name, tensor.layout, "need dense tensors, as x.to_dense()")
    return tensor.detach()


def _column(name: str, given: Any, column: str) -> Tensor:
    """A column of a Hugging Face data set; images become (C, H, W) from 0 to 1."""
    if type(given.features[column]).__name__ == "Image":
        return _images(name, given, column)
    rule = "need numbers, the same number of them in all rows; otherwise give collate="
    try:
        values = np.asarray(given.select_columns([column]).with_format("numpy")[:][column])
    except Exception as error:  # rows that are missing raise errors of several kinds
        raise BadInput(name, f"column {column}", rule) from error
    require(values.dtype.kind in "biuf", name, f"column {column}", rule)
    return _tensor(name, column, values)


def _images(name: str, given: Any, column: str) -> Tensor:
    """A column of images, (N, C, H, W) from 0 to 1."""
    pixels = torch.empty(0)
    for place, row in enumerate(_each(name, given.select_columns([column]).with_format(None))):
        image, shown = row[column], f"image {place} of column {column}"
        rule = "need an image; datasets.Image() decodes files in bytes"
        require(hasattr(image, "mode"), name, shown, rule)
        white = white_of(image)
        rule = f"is of Pillow's kind {image.mode}: need 1, 8 or 16 bits per colour; convert it"
        if white is None:
            raise BadInput(name, shown, rule)
        own_pixels = torch.from_numpy(unit_pixels(image, white))
        if place == 0:
            pixels = torch.empty(len(given), *own_pixels.shape)
        own, first = tuple(own_pixels.shape), tuple(pixels.shape[1:])
        rule = f"has shape {own}, the first {first}: need one shape, or collate="
        require(own == first, name, shown, rule)
        pixels[place] = own_pixels
    return pixels
