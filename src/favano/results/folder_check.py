"""Which result folders may be written: no result of something else is replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from favano.errors import BadInput, require
from favano.records import Summary, differing, read_file, summary_from_json
from favano.records.folder import FILES, SPEC, SUMMARY
from favano.specification.config import read_config
from favano.specification.digest import differing_keys
from favano.specification.history_start import files_digest, named_files
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec

_LENGTHS = {"horizon", "seeds"}  # keys of which a result may get more


def check_writable(folder: Path, name: str = "out") -> None:
    """Refuse a folder that cannot be written, before any training."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    require(above.is_dir(), name, folder, f"{above} is a file, need a folder")
    try:
        with TemporaryDirectory(dir=above):  # some file systems refuse whatever the permissions say
            pass
    except OSError as error:
        raise BadInput(name, folder, f"{above} cannot be written: {error.strerror}") from None


def check_folder(folder: Path, spec: Spec) -> None:
    """Refuse a folder that holds another run, or that cannot be written, before any training."""
    check_single(folder)
    if (folder / SPEC).exists():
        names = [] if is_longer(folder, spec) else differing_keys(_held(folder), resolve(spec))
        _need_equal(folder, names)
        if (held := _ended(folder)) is not None:
            name = " and ".join(part.name for part in spec.own_parts) or spec.method.name
            named = ", ".join(named_files(spec))
            rule = f"already holds a run of other contents of {named}; choose a new folder"
            require(files_digest(spec) == held.trace, "out", folder, rule)
            rule = f"already holds a run of another version of {name}; choose a new folder"
            require(spec.source == held.source, "out", folder, rule)


def check_single(folder: Path) -> None:
    """Refuse a folder that cannot be written, or that holds the results of a comparison."""
    check_writable(folder)
    several = not (folder / SUMMARY).exists() and any(folder.glob(f"*/{SUMMARY}"))
    require(
        not several, "out", folder, "holds several results; choose a new folder for a single one"
    )


def check_content(folder: Path, summary: Summary) -> None:
    """Refuse a folder that holds a result of other data, or of another network, loss or metric."""
    if (held := _ended(folder)) is not None:
        same = held.data in (None, summary.data)
        require(same, "out", folder, "already holds a run of other data; choose a new folder")
        _need_equal(folder, differing(held.code or {}, summary.code or {}))


def check_comparison(folder: Path) -> None:
    """Refuse a folder that holds a single result: those of a comparison would be hidden by it."""
    rule = "holds a single result; choose a new folder for several"
    require(not (folder / SUMMARY).exists(), "out", folder, rule)


def _need_equal(folder: Path, names: Sequence[str]) -> None:
    """Refuse a folder whose run differs in something."""
    rule = f"already holds another run (differs in {', '.join(names)}); choose a new folder"
    require(not names, "out", folder, rule)


def _held(folder: Path) -> Mapping[str, object]:
    """The keys of the specification in a folder."""
    try:
        return read_config(folder / SPEC).first
    except BadInput as error:
        rule = f"holds a spec.toml that cannot be used ({error}); choose a new folder"
        raise BadInput("out", folder, rule) from error


def has_same_run(folder: Path, spec: Spec, *, but: Sequence[str]) -> bool:
    """Whether a folder holds the complete result of a specification that differs in these keys."""
    return is_finished(folder) and differing_keys(_held(folder), resolve(spec)) == [*but]


def is_longer(folder: Path, spec: Spec) -> bool:
    """Whether a specification differs from that of a result in more seeds or a longer horizon."""
    said, asked = _held(folder), resolve(spec)
    names = differing_keys(said, asked)
    if not names or not set(names) <= _LENGTHS:
        return False
    if asked.is_of_one_horizon and "horizon" in names:
        return False
    if not all(name in said for name in names):
        return False
    before = make_spec({name: said[name] for name in names}).run
    return all(getattr(asked.run, name) >= getattr(before, name) for name in names)


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a result whose runs all reached their end."""
    held = _ended(folder)
    return held is not None and held.status != "stopped"


def _ended(folder: Path) -> Summary | None:
    """The summary of a result that nothing interrupted; None if there is none, or a damaged one."""
    paths = [folder / name for name in FILES]
    if not all(path.is_file() and path.stat().st_size for path in paths):
        return None
    try:
        held = read_file(folder / SUMMARY, summary_from_json)
    except ValueError:  # the runs are made again
        return None
    return held if held.status != "partial" else None
