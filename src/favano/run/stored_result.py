"""What the files of a result state, and whether they agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch

from favano.errors import require
from favano.methods import AnyMethod, all_methods, method_class
from favano.methods.favano import Favano
from favano.options import from_text, place_of
from favano.policies import Policy, Selection, Uniform
from favano.policies.registry import NAME, all_policies, as_policy
from favano.policies.selection_names import KEY as SELECTION
from favano.policies.selection_names import OURS as OUR_SELECTIONS
from favano.records import Row, RunRecord, read_file, rows_by_seed
from favano.records.chain import running_digests
from favano.records.folder import (
    BOUND,
    FILES,
    HISTORY,
    MODEL,
    PARTICIPATION,
    RUNS_FOLDER,
    SPEC,
    SUMMARY,
)
from favano.results import Result, read_result, result_folders, run_folders
from favano.results.digest_check import end_fault, final_cells, row_fault
from favano.specification.config import SERVER
from favano.specification.digest import run_digest
from favano.specification.history_start import history_start
from favano.specification.presets import resolve
from favano.specification.spec import ALGORITHM, POLICY, Spec, make_spec
from favano.transforms import AnyTransform, parse_transform
from favano.transforms.registry import OURS
from favano.user_classes import file_of


class OwnClasses(NamedTuple):
    """Classes in Python that a result may name, by name."""

    methods: Mapping[str, type[AnyMethod]] = {}
    transforms: Mapping[str, type[AnyTransform]] = {}
    selections: Mapping[str, type[Selection]] = {}
    policies: Mapping[str, type[Policy]] = {}


NO_CLASSES = OwnClasses()
_ALL_FILES = "need all files of a result as they were written"
_FROM_PYTHON = (
    "verify it from Python: favano.verify(folder, problem, methods=[...], server=[...], "
    "selection=..., policies=[...])"
)


@dataclass(frozen=True)
class StoredResult:
    """What was run, and what came out, as a result folder states it."""

    path: Path
    result: Result
    spec: Spec | None  # None: its method is in a file that is not executed
    texts: Mapping[str, str]  # all text files, by name

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.result.algorithm

    @cached_property
    def rows(self) -> Mapping[int, Sequence[Row]]:
        """All evaluations by seed."""
        return rows_by_seed(self.result.rows)

    @cached_property
    def ends(self) -> Mapping[int, RunRecord]:
        """The final numbers of each seed, stated again."""
        return {run.seed: run for run in self.result.runs}

    @property
    def seeds(self) -> list[int]:
        """All seeds that the files know of."""
        partial = self.result.summary.status == "partial"
        asked = () if self.spec is None or partial else _seeds(self.spec)
        return sorted({*asked, *self.rows, *self.ends})

    @property
    def names(self) -> list[str]:
        """The names of all files that are read."""
        return [*self.texts, *([] if self.result.lean else [MODEL])]


def read_statements(
    path: Path, own: OwnClasses = NO_CLASSES, *, execute: bool = True
) -> list[StoredResult]:
    """The results in a folder: of a run, of a comparison, or of `favano reproduce`.

    `own` are classes that cannot be found by their names. Unless told to `execute`, no file of
    the user's is, and specifications that name one are left out.
    """
    folders = [run for folder in result_folders(path) for run in run_folders(folder) or [folder]]
    return [_read(folder, own, execute) for folder in folders]


def contradiction(stated: StoredResult, seed: int) -> str | None:
    """The first thing about a seed in which the files contradict each other.

    Nothing is computed but digests.
    """
    rows, spec, summary = stated.rows.get(seed, ()), stated.spec, stated.result.summary
    if not rows:
        return "has no rows"
    if seed not in stated.ends:
        return "has rows, but no final numbers"
    start = None
    if spec is not None:
        if seed not in _seeds(spec):
            return "is not one of the seeds in its specification"
        digests = {"data": summary.data, "files": summary.trace, "source": summary.source}
        start = history_start(spec, seed, **digests)
    if fault := row_fault(rows, start):
        return fault
    of_a_study = stated.result.lean and stated.path.resolve().parent.name == RUNS_FOLDER
    if of_a_study and spec is not None and stated.path.name != run_digest(spec):
        return f"is in {stated.path.name}, but its specification is that of {run_digest(spec)}"
    kept, which = stated.result.kept_row(rows)
    if not stated.result.lean and kept.model_digest not in _file_digests(stated, seed):
        return f"{MODEL} does not hold the model of its {which} row"
    return end_fault(rows[-1], final_cells(stated.ends[seed]))


def _seeds(spec: Spec) -> range:
    return range(spec.run.seed, spec.run.seed + spec.run.seeds)


def _file_digests(stated: StoredResult, seed: int) -> Iterator[str]:
    """What the digest of a seed's model in the model file may be, as rows have it.

    The first tensors are those of a flat model. Constants of the network and second names of
    tensors that layers share may follow.
    """
    tensors = [*stated.result.states.get(seed, {}).values()]
    kind = tensors[0].dtype if tensors else None  # counters are whole numbers in files alone
    numbers = (tensor.flatten().to(kind) for tensor in tensors if not tensor.is_complex())
    return running_digests(tensor.view(torch.uint8).numpy().data for tensor in numbers)


def _spec_of(result: Result, own: OwnClasses, execute: bool) -> Spec | None:
    """The complete specification; None if own code would have to be executed, and must not."""
    keys = dict(result.keys)
    name, chain = str(keys.get(ALGORITHM, Favano.name)), keys.get(SERVER)
    kind = own.methods.get(name) or all_methods().get(name)
    texts = [str(text) for text in chain] if isinstance(chain, list) else []
    ours = {**OURS, **own.transforms}
    foreign = [place for place, _ in map(place_of, texts) if place not in ours]
    selection = str(keys.get(SELECTION, Uniform.name))
    rules, (rule_name, _) = {**OUR_SELECTIONS, **own.selections}, place_of(selection)
    foreign += [rule_name] if rule_name not in rules else []
    table = keys.get(POLICY)
    policy = str(table.get(NAME)) if isinstance(table, dict) else None
    known = {**all_policies(), **own.policies}
    own_policy = policy is not None and policy not in known
    if not execute and (kind is None or foreign or own_policy):
        return None
    rule = f"was made with a method of its own, {name}; {_FROM_PYTHON}"
    require(kind is not None or file_of(name) is not None, "folder", result.folder, rule)
    for place in foreign:
        rule = f"was made with a class of its own, {place}; {_FROM_PYTHON}"
        require(file_of(place) is not None, "folder", result.folder, rule)
    rule = f"was made with a policy of its own, {policy}; {_FROM_PYTHON}"
    found = not own_policy or file_of(str(policy)) is not None
    require(found, "folder", result.folder, rule)
    if policy is not None:
        keys[POLICY] = as_policy(table, known)
    if texts:
        keys[SERVER] = [parse_transform(text, own.transforms) for text in texts]
    if rule_name in own.selections:
        keys[SELECTION] = from_text(own.selections[rule_name], selection, SELECTION)
    return resolve(make_spec(keys, kind or method_class(name)))


def _read(folder: Path, own: OwnClasses, execute: bool) -> StoredResult:
    for name in FILES:
        there = (folder / name).is_file()
        require(there or name == MODEL, "folder", folder, f"holds no {name}; {_ALL_FILES}")
    result = read_result(folder)
    assert result.states is not None  # a damaged model file is refused now
    names = (SPEC, HISTORY, SUMMARY, BOUND, PARTICIPATION)
    texts = {name: read_file(folder / name, str) for name in names if (folder / name).exists()}
    return StoredResult(folder, result, _spec_of(result, own, execute), texts)
