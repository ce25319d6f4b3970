"""Digests of code: whether a function, a class or a file of the user's is what it was."""

from __future__ import annotations

import ast
import dis
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType

PLAIN = (type(None), bool, int, float, complex, str, bytes)


def code_digest(given: object) -> str:
    """A digest of a function, a class or another callable: its code, and the values it uses.

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
    content = (file.read_bytes() for file in _with_imported(path, []))
    return hashlib.sha256(b"".join(content)).hexdigest()


def _with_imported(path: Path, files: list[Path]) -> list[Path]:
    files.append(path)
    if _is_installed(path):
        return files
    for name in sorted(_imported(path)):
        for other in (path.parent / f"{name}.py", path.parent / name / "__init__.py"):
            if other.is_file() and other not in files:
                _with_imported(other, files)
    return files


def _imported(path: Path) -> set[str]:
    """The first parts of the names that a file imports; none if it cannot be read."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # also of a stranger's making
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.module):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def _parts(given: object, seen: set[int]) -> Iterator[str]:
    if isinstance(given, PLAIN):
        yield repr(given)
    elif isinstance(given, tuple):
        yield f"tuple of {len(given)}"
        for item in given:
            yield from _parts(item, seen)
    elif isinstance(given, frozenset):
        yield from sorted(" ".join(_parts(item, seen)) for item in given)
    elif isinstance(given, CodeType):
        yield from (given.co_code.hex(), repr(given.co_names), repr(given.co_freevars))
        yield from _parts(given.co_consts, seen)
    elif isinstance(given, partial):
        yield from _parts((given.func, given.args, tuple(given.keywords.items())), seen)
    elif isinstance(given, MethodType):
        yield from _parts((given.__func__, given.__self__), seen)
    elif isinstance(given, staticmethod | classmethod):
        yield from _parts(given.__func__, seen)
    elif isinstance(given, property):
        yield from _parts((given.fget, given.fset), seen)
    elif isinstance(given, FunctionType | type):
        users = is_users(given)
        yield given.__qualname__ if users else f"{given.__module__}.{given.__qualname__}"
        if id(given) not in seen and users:
            seen.add(id(given))
            yield from (
                _of_function(given, seen)
                if isinstance(given, FunctionType)
                else (part for member in _of_class(given) for part in _parts(member, seen))
            )
    elif (content := _tensor(given)) is not None:
        yield content
    else:
        yield from _parts(type(given), seen)
        yield getattr(given, "__qualname__", "")
        if callable(given) and id(given) not in seen:
            seen.add(id(given))
            values = getattr(given, "__dict__", {})
            kept = {
                name: value for name, value in values.items() if isinstance(value, (*PLAIN, tuple))
            }
            buffers = values.get("_buffers", {})  # such as the weights of classes in a loss
            yield from _parts((*sorted(kept.items()), *sorted(buffers.items())), seen)


def _of_function(given: FunctionType, seen: set[int]) -> Iterator[str]:
    code = given.__code__
    described = bool(code.co_consts) and given.__doc__ == code.co_consts[0]
    yield from _parts(code.replace(co_consts=code.co_consts[1:]) if described else code, seen)
    cells = tuple(_content(cell) for cell in given.__closure__ or ())
    defaults = (given.__defaults__, tuple((given.__kwdefaults__ or {}).items()))
    yield from _parts((cells, defaults), seen)
    for name in sorted(globals_of(code)):
        if name in given.__globals__:
            yield name
            yield from _parts(given.__globals__[name], seen)


def _of_class(given: type) -> Iterator[object]:
    """What a class inherits from, what its instances do, and its own values."""
    yield given.__bases__
    for name, member in sorted(vars(given).items()):
        code = isinstance(member, FunctionType | staticmethod | classmethod | property)
        if code or not name.startswith("__"):
            yield (name, member)


def _content(cell: object) -> object:
    try:
        return cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:  # a function that names itself, not finished yet
        return None


def globals_of(code: CodeType) -> set[str]:
    """Names of the globals that are read, also in functions within."""
    inner = [globals_of(nested) for nested in code.co_consts if isinstance(nested, CodeType)]
    mine = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname == "LOAD_GLOBAL"
    }
    return mine.union(*inner)


def is_users(given: FunctionType | type) -> bool:
    """Whether something was written by the user: not part of favano or of an installed package."""
    module = str(given.__module__)
    if module == "__main__":
        return True
    if module.partition(".")[0] in {"favano", *sys.builtin_module_names}:
        return False
    place = getattr(sys.modules.get(module), "__file__", None)
    return place is None or not _is_installed(Path(place))


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
        content = numbers.view(torch.uint8).numpy().tobytes()
    elif (numpy := sys.modules.get("numpy")) is not None and isinstance(given, numpy.ndarray):
        content = given.tobytes()
    else:
        return None
    kind = f"{given.dtype} {tuple(given.shape)}"
    return f"{kind} {hashlib.sha256(content).hexdigest()}"
