"""Digests of code: whether a function, a class or a file of the user's is what it was."""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import linecache
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from textwrap import dedent
from types import CellType, CodeType, FunctionType, MethodType, ModuleType

from favano.notices import notice

PLAIN = (type(None), bool, int, float, complex, str, bytes)


def code_digest(given: object) -> str:
    """A digest of a function, a class or another callable: its source, and the values it uses.

    Functions and classes that it names are followed, also numbers, texts, tuples and tensors, in
    closures, defaults and globals. Lists and other things that may change meanwhile are known by
    their type alone, and what belongs to an installed package by its name.

    >>> one, other = partial(round, ndigits=1), partial(round, ndigits=2)
    >>> code_digest(one) == code_digest(other)
    False
    """
    digest = hashlib.sha256()
    for part in _parts(given, set()):
        digest.update(f"{len(part)} {part}".encode(errors="surrogatepass"))
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """A digest of a Python file, and of the files beside it that it imports."""
    content = (file.read_bytes() for file in with_imported(path))
    return hashlib.sha256(b"".join(content)).hexdigest()


def with_imported(path: Path) -> list[Path]:
    """A Python file, and the files beside it that it imports, and they."""
    return _add_imported(path, [])


def _add_imported(path: Path, files: list[Path]) -> list[Path]:
    files.append(path)
    for name in () if _is_installed(path) else sorted(_imported(path)):
        for other in (path.parent / f"{name}.py", path.parent / name / "__init__.py"):
            if other.is_file() and other not in files:
                _add_imported(other, files)
    return files


def _imported(path: Path) -> set[str]:
    """The first parts of the names that a file imports; none if it cannot be read."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # also of a stranger's making
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.name for alias in node.names}
    return {name.partition(".")[0] for name in names}


def _parts(given: object, seen: set[int]) -> Iterator[str]:
    if isinstance(given, PLAIN):
        yield repr(given)
    elif (numbers := _tensor(given)) is not None:
        yield numbers
    else:
        name = getattr(given, "__qualname__", "")
        packaged = isinstance(given, FunctionType | type) and not is_users(given)
        yield f"{given.__module__}.{name}" if packaged else name
        if id(given) in seen or packaged:
            return
        if callable(given):  # tuples are made on the way: the next may have the same id
            seen.add(id(given))
        for part in _content(given):
            yield from _parts(part, seen)


def _content(given: object) -> Iterator[object]:
    """What counts in a value that is not plain."""
    if isinstance(given, tuple):
        yield from (len(given), *given)
    elif isinstance(given, frozenset):
        yield tuple(sorted(map(code_digest, given)))
    elif isinstance(given, partial):
        yield from (given.func, given.args, tuple(given.keywords.items()))
    elif isinstance(given, MethodType):
        yield from (given.__func__, given.__self__)
    elif isinstance(given, staticmethod | classmethod):
        yield given.__func__
    elif isinstance(given, property):
        yield from (given.fget, given.fset)
    elif isinstance(given, FunctionType):
        known, cells = given.__globals__, given.__closure__ or ()
        yield _source(given.__code__)
        yield from (cell.cell_contents if cell != CellType() else None for cell in cells)
        yield from (given.__defaults__, tuple((given.__kwdefaults__ or {}).items()))
        yield from ((name, known[name]) for name in sorted(globals_of(given.__code__) & {*known}))
    elif isinstance(given, type):  # not by its text, which Python does not find in notebooks
        yield given.__bases__
        yield from (pair for pair in sorted(vars(given).items()) if _counts(*pair))
    else:
        yield type(given)
        values = getattr(given, "__dict__", {}) if callable(given) else {}
        yield from sorted(pair for pair in values.items() if isinstance(pair[1], (*PLAIN, tuple)))
        yield from sorted(values.get("_buffers", {}).items())  # the weights of classes in a loss


def _counts(name: str, member: object) -> bool:
    """Whether a member of a class was written by its author, not made by Python or a dataclass."""
    if isinstance(member, FunctionType):
        return not (name.startswith("__") and member.__code__.co_filename == "<string>")
    return isinstance(member, staticmethod | classmethod | property) or name[:2] != "__"


def _source(code: CodeType) -> str:
    """The text of a function, and where in its lines a lambda begins."""
    try:
        text = dedent(inspect.getsource(code))
    except (OSError, SyntaxError):
        _say_unknown(code.co_filename)
        return ""
    columns = (first for *_, first, last in code.co_positions() if first and last)
    return f"{text}{min(columns, default=0)}" if code.co_name == "<lambda>" else text


@cache
def _say_unknown(file: str) -> None:
    """Once for each place, such as <stdin>."""
    rule = "has no source to compare: its functions are known by their names, not by what they do"
    notice(f"code from {file} {rule}; write it in a file or a notebook to have changes noticed")


def globals_of(code: CodeType) -> set[str]:
    """Names of the globals that are read, also in functions within."""
    inner = [globals_of(nested) for nested in code.co_consts if isinstance(nested, CodeType)]
    read = (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    return set(read).union(*inner)


def is_users(given: FunctionType | type) -> bool:
    """Whether something was written by the user: not part of favano or of an installed package."""
    module = str(given.__module__)
    if module == "__main__":
        return True
    if module.partition(".")[0] in {"favano", *sys.builtin_module_names}:
        return False
    place = getattr(sys.modules.get(module), "__file__", None)
    return place is None or not _is_installed(Path(place))


def user_modules() -> list[ModuleType]:
    """Modules of this process that are the user's, besides the program itself."""
    files = ((module, getattr(module, "__file__", None)) for module in [*sys.modules.values()])
    return [
        module
        for module, file in files
        if file is not None
        and module.__name__.partition(".")[0] not in {"__main__", "__mp_main__", "favano"}
        and not _is_installed(Path(file))
    ]


def user_sources() -> dict[str, str]:
    """The text of the user's code in this process by its file, also of a notebook's cells."""
    modules = [*user_modules(), sys.modules["__main__"]]
    files = [getattr(module, "__file__", None) for module in modules]
    cells = [name for name, entry in linecache.cache.items() if len(entry) > 1 and not entry[1]]
    names = {name for name in (*files, *cells) if name and not _is_installed(Path(name))}
    return {name: "".join(linecache.getlines(name)) for name in names}


def keep_sources(texts: Mapping[str, str]) -> None:
    """Let this process find the text of code whose files are on another machine."""
    for name, text in texts.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _folders_of_packages())


@cache
def _folders_of_packages() -> set[str]:
    """Found when they are needed first: commands that train nothing start without them."""
    return {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}


def _tensor(given: object) -> str | None:
    """The content of a tensor or an array; None of anything else."""
    if (torch := sys.modules.get("torch")) is not None and isinstance(given, torch.Tensor):
        numbers = given.detach().cpu().contiguous().reshape(-1)
        content = numbers.view(torch.uint8).numpy().data  # no copy: it may be a large network
    elif (numpy := sys.modules.get("numpy")) is not None and isinstance(given, numpy.ndarray):
        content = given.tobytes()
    else:
        return None
    kind = f"{given.dtype} {tuple(given.shape)}"
    return f"{kind} {hashlib.sha256(content).hexdigest()}"
