"""Groups of named values that describe themselves: the parts of a run, and every method's options.

A class that inherits from `Options` is a frozen dataclass. Its values are declared with `option`,
which says what they mean, and are checked against their types when an object is made. Flags, TOML
tables, help texts and error messages all follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, wraps
from inspect import unwrap
from types import CodeType, FunctionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from favano.errors import BadInput, require

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

T = TypeVar("T")
Group = TypeVar("Group", bound="Options")
_WHEN_USED = ContextVar("_WHEN_USED", default=False)  # whether bad classes are refused only then


class _Fraction:
    """Lets `1/9` be written as such."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_read_fraction, handler(source))


def _read_fraction(value: object) -> object:
    try:
        return float(Fraction(value)) if isinstance(value, str) else value
    except (ValueError, ZeroDivisionError):
        return value


LIMIT: Final = 1 << 63  # of whole numbers
Count = Annotated[int, Ge(1), Lt(1 << 31)]
Whole = Annotated[int, Ge(0), Lt(LIMIT)]
Seeds = Annotated[int, Ge(1), Le(10_000)]  # they are planned and trained together
Time = Annotated[float, Ge(0)]
PositiveTime = Annotated[float, Gt(0)]
Rate = Annotated[float, Ge(0), Le(1e30)]  # beyond it, single precision overflows
Below1 = Annotated[float, Ge(0), Lt(1)]
UnitInterval = Annotated[float, Ge(0), Le(1), _Fraction()]
PositiveUnitInterval = Annotated[float, Gt(0), Le(1), _Fraction()]


@dataclass(frozen=True)
class Option(Generic[T]):
    """One named value: what it means, and where its default comes from."""

    name: str
    kind: object  # its type, with bounds
    default: T
    text: str
    otherwise: str  # what None stands for
    symbol: str  # in the papers
    source: str  # of the default

    @property
    def shown_default(self) -> str:
        """The default as help texts and cards print it; nothing where there is none to print."""
        if self.otherwise:
            return self.otherwise
        if self.default in (None, (), ""):
            return ""
        return f"{self.default:.4g}" if isinstance(self.default, float) else str(self.default)

    @property
    def values(self) -> str:
        """What it may be: `a|b|c` of a choice, `N` for whole numbers, `X` for others, `TEXT`."""
        if self.kind is bool:
            return "true|false"
        if choices := _choices(self.kind):
            return choices
        parts = _inner_types(self.kind)
        kind = "N" if int in parts else "X" if float in parts else "TEXT"
        return f"{kind},{kind},..." if self.is_list else kind

    @property
    def listed_choices(self) -> str:
        """Its choices in parentheses, unless its text names them all."""
        choices = self.values.split("|")
        named = (
            self.kind is bool
            or len(choices) == 1
            or all(word in self.text for word in choices if word != "none")
        )
        return "" if named else f" ({', '.join(choices)})"

    @property
    def is_list(self) -> bool:
        """Whether it holds several values; on the command line, between commas."""
        return any(get_origin(kind) in (tuple, Sequence) for kind in _inner_types(self.kind))

    @property
    def is_number(self) -> bool:
        """Whether it is one number."""
        return _is_number(self.kind) and not self.is_list

    def checked(self, value: object) -> T:
        """The value in its type; a bad one is refused in one sentence."""
        if value is self.default:
            return self.default
        if isinstance(self.kind, type) and issubclass(self.kind, Options):
            rule = f"need a favano.{self.kind.__name__}"
            require(isinstance(value, self.kind), self.name, value, rule)
            return cast(T, value)
        from pydantic import ValidationError  # here, since plans and theory check few values

        if _is_number(self.kind):
            _need_no_bool(self.name, value)
        try:
            return cast(T, _adapter(self.kind).validate_python(value))
        except ValidationError as error:
            found = error.errors()  # of a number or a list, those of both: the deepest is meant
            first = max(found, key=lambda each: sum(isinstance(part, int) for part in each["loc"]))
            if isinstance(cause := first.get("ctx", {}).get("error"), BadInput):
                raise cause from None
            rule = first["msg"][0].lower() + first["msg"][1:].replace("'", "")
            numbers = [str(part) for part in first["loc"] if isinstance(part, int)]
            rule = rule.replace("input should be", "need")
            if self.is_number and len(listed(value)) > 1:
                rule = "need one number"
            raise BadInput(".".join([self.name, *numbers]), first["input"], rule) from None


def listed(value: object) -> list[object]:
    """The values of a list, or of a text between commas; one value is a list of itself.

    >>> listed("0.1,0.5"), listed([0.1, 0.5]), listed(0.1)
    (['0.1', '0.5'], [0.1, 0.5], [0.1])
    """
    if isinstance(value, str):
        return [*value.split(",")]
    return [*value] if isinstance(value, list | tuple) else [value]


def option(default: T, text: str, *, otherwise: str = "", symbol: str = "", source: str = "") -> T:
    """Declare a value of an `Options` class.

    Args:
        default: taken where nothing is given.
        text: what it means, in a few words.
        otherwise: what a default of None stands for, as help texts print it.
        symbol: the letter that papers use for it.
        source: where the default comes from.
    """
    about = {"text": text, "otherwise": otherwise, "symbol": symbol, "source": source}
    return field(default=default, metadata={"option": about})


@contextmanager
def refused_when_used() -> Iterator[None]:
    """Inside, a bad class is made and keeps its `refusal`, so that others in its file are made."""
    before = _WHEN_USED.set(True)
    try:
        yield
    finally:
        _WHEN_USED.reset(before)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Options:
    """A group of values. Inherit, declare them with `option`, and check what two of them forbid."""

    refusal: ClassVar[BadInput | None] = None  # why the class cannot be used

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # Generic's
        try:
            cls._complete()
        except BadInput as error:
            if not _WHEN_USED.get():
                raise
            cls.refusal = error

    @classmethod
    def _complete(cls) -> None:
        rule = "has an __init__ of its own; declare options by favano.option instead"
        require("__init__" not in vars(cls), "class", cls.__name__, rule)
        text = cls.__doc__
        dataclass(frozen=True, kw_only=True)(cls)
        cls.__doc__ = text  # no signature where there is none
        _by_name(cls)
        cls.declare()

    @classmethod
    def declare(cls) -> None:
        """Called once for each class, when it is made."""

    def __post_init__(self) -> None:
        for name, declared in options_of(type(self)).items():
            object.__setattr__(self, name, declared.checked(getattr(self, name)))
        self.check()

    def check(self) -> None:
        """Refuse values that contradict each other."""

    @property
    def given(self) -> dict[str, object]:
        """The values that differ from their defaults."""
        every = options_of(type(self)).items()
        pairs = {name: (getattr(self, name), declared.default) for name, declared in every}
        return {name: value for name, (value, default) in pairs.items() if value != default}


def _by_name(kind: type[Options]) -> None:
    """Refuse what is given without a name, or by a name that the class does not know."""
    make = kind.__init__
    known = [attribute.name for attribute in fields(cast("type[DataclassInstance]", kind))]

    @wraps(make)
    def init(self: Options, *values: object, **named: object) -> None:
        for value in values:
            raise BadInput(kind.__name__, value, f"need its name; known: {', '.join(known)}")
        for name, value in named.items():
            if name not in known:
                raise BadInput(name, value, f"unknown key; {did_you_mean(name, known)}")
        make(self, **named)

    setattr(kind, "__init__", init)  # noqa: B010


def options_of(kind: type[Options]) -> Mapping[str, Option[object]]:
    """The options of a class by name, in the order in which they are declared."""
    if (known := vars(kind).get("_options")) is None:
        known = _found_in(kind)
        setattr(kind, "_options", known)  # noqa: B010
    return cast(Mapping[str, Option[object]], known)


def _found_in(kind: type[Options]) -> Mapping[str, Option[object]]:
    hints = get_type_hints(kind, include_extras=True)
    listed = fields(cast("type[DataclassInstance]", kind))
    declared = {attribute.name: attribute for attribute in listed if "option" in attribute.metadata}
    for attribute in declared.values():
        assert attribute.default is not MISSING
    return {
        name: Option(name, hints[name], attribute.default, **attribute.metadata["option"])
        for name, attribute in declared.items()
    }


def text_of(group: Options, name: str) -> str:
    """A group of values as one text, after its name: `adam:rate=0.01:momentum=0.9`."""
    values = {key: getattr(group, key) for key in options_of(type(group))}
    texts = (
        f"{key}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in values.items()
        if value is not None
    )
    return ":".join([name, *texts])


def place_of(text: str) -> tuple[str, list[str]]:
    """The name of a class in a text, `path/to/file.py:Name` or one of ours, and its values.

    >>> place_of("adam:0.01:beta2=0.9"), place_of("my/file.py:Noise:0.1")
    (('adam', ['0.01', 'beta2=0.9']), ('my/file.py:Noise', ['0.1']))
    """
    path, colon, rest = text.rpartition(".py:")
    name, *values = rest.split(":")
    return f"{path}{colon}{name}", values


def from_text(kind: type[Group], text: str, what: str) -> Group:
    """The group of a text: values in order or by name, between colons, after its name."""
    name, values = place_of(text)
    options, given = options_of(kind), dict[str, object]()
    known = list(options)
    for place, value in enumerate(values):
        key, equals, rest = value.partition("=")
        rule = f"need {':'.join([name, *known])}, or some of these by name, as rate=0.1"
        require(bool(equals) or place < len(known), what, text, rule)
        key, rest = (key, rest) if equals else (known[place], value)
        require(key in options and key not in given, what, text, rule)
        given[key] = rest.split(",") if options[key].is_list else rest
    try:
        return kind(**given)
    except BadInput as error:
        raise BadInput(what, text, str(error)) from error


def is_text_of(group: Options, text: str, what: str) -> bool:
    """Whether a text says all of a group, so that files can hold it."""
    try:
        return from_text(type(group), text, what) == group
    except BadInput:
        return False


_ALSO_CALLED: Final[Mapping[str, str]] = {  # what other libraries say
    "lr": "learning_rate",
    "eta": "learning_rate",
    "server_lr": "server_learning_rate",
    "num_clients": "clients",
    "n_clients": "clients",
    "clients_per_round": "selected",
    "fraction_fit": "selected",
    "cohort_size": "selected",
    "num_steps": "local_steps",
    "epochs": "local_epochs",
    "local_steps_unit": "local_epochs",
    "batch": "batch_size",
    "rounds": "horizon",
    "num_rounds": "horizon",
    "num_seeds": "seeds",
    "buffer_size": "buffer",
    "mu": "proximal",
    "max_norm": "clip",
    "optimizer": "optimiser",
    "server_optimizer": "server_optimiser",
}
_FEW = 20  # names that are listed


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What was probably meant, or what there is, if it is not too much.

    >>> did_you_mean("bufer", ["buffer", "window"]), did_you_mean("lr", ["learning_rate"])
    ('did you mean buffer?', 'did you mean learning_rate?')
    >>> did_you_mean("tau", ["buffer", "window"])
    'known: buffer, window'
    """
    listed = list(known)
    close = [_ALSO_CALLED[name]] if _ALSO_CALLED.get(name) in listed else []
    if close := close or get_close_matches(name, listed, n=1):
        return f"did you mean {close[0]}?"
    if len(listed) > _FEW:
        return f"there are {len(listed)} others; favano run --help-all explains them"
    return f"known: {', '.join(listed)}"


def unknown_attribute(owner: str, kind: type, name: str) -> AttributeError:
    """The refusal of an attribute that a class does not have, with the likely one, or all.

    >>> unknown_attribute("the complex number", complex, "imagg")
    AttributeError('the complex number has no imagg; did you mean imag?')
    """
    names = {*getattr(kind, "__dataclass_fields__", {}), *dir(kind)}
    known = sorted(known for known in names if not known.startswith("_"))
    return AttributeError(f"{owner} has no {name}; {did_you_mean(name, known)}")


_CLOSE = 0.8  # names that are so similar are misspelt


def refuse_unread(kind: type[Options], base: type[Options], key: str, hooks: Sequence[str]) -> None:
    """Refuse what nobody would ever read: almost the name of a hook or constant, or no hook at all.

    Options, names that begin with an underscore, and functions that the class itself calls are the
    author's own. A class that lacks hooks is a base of others, which may call whatever it has.
    """
    known = [name for name in dir(base) if not name.startswith("_")]
    public = {name for name in vars(kind) if not name.startswith("_")}
    others = sorted(public - {*known, *options_of(kind)})
    helper = "a helper of your own begins with an underscore"
    for name in others:
        close = get_close_matches(name, known, n=1, cutoff=_CLOSE)
        rule = (
            f"{name} is nothing that favano.{base.__name__} knows; did you mean {''.join(close)}?"
        )
        require(not close, key, kind.__name__.lower(), f"{rule} ({helper})")
    ours = kind.__module__.startswith("favano.")  # whatever calls it
    needed = getattr(base, "__abstractmethods__", ())
    if ours or any(getattr(kind, hook) is getattr(base, hook) for hook in needed):
        return
    called = _names_used(each for each in kind.__mro__ if each not in base.__mro__)
    for name in others:
        read = name in called or not isinstance(vars(kind)[name], FunctionType)
        rule = f"{name} is no hook of favano.{base.__name__}, and nothing in the class calls it"
        rule += f"; hooks: {', '.join(hooks)} ({helper})"
        require(read, key, kind.__name__.lower(), rule)


def _names_used(kinds: Iterable[type]) -> set[str]:
    """Names that the functions of classes use, also as texts, as `getattr` does."""
    names: set[str] = set()
    codes: list[object] = []
    for value in (value for kind in kinds for value in vars(kind).values()):
        wrapped = getattr(value, "fget", None) or getattr(value, "func", value)  # of a property
        if isinstance(function := unwrap(wrapped), FunctionType):
            codes.append(function.__code__)
            names |= set() if isinstance(value, FunctionType) else {function.__name__}
    while codes:
        if isinstance(part := codes.pop(), CodeType):
            names |= {*part.co_names}
            codes += part.co_consts
        elif isinstance(part, str):
            names.add(part)
    return names


@cache
def _adapter(kind: object) -> TypeAdapter[object]:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))  # type: ignore[arg-type]


@cache
def _is_number(kind: object) -> bool:
    """Whether values of this type are numbers, or hold some, and no bools."""
    inner = _inner_types(kind)
    return bool not in inner and (int in inner or float in inner)


def _inner_types(kind: object) -> list[object]:
    return [kind, *(inner for part in get_args(kind) for inner in _inner_types(part))]


def _need_no_bool(name: str, value: object) -> None:
    """Refuse what Pydantic takes for 0 or 1, also in lists."""
    if isinstance(value, list | tuple):
        for place, item in enumerate(value):
            _need_no_bool(f"{name}.{place}", item)
    if isinstance(value, bool | np.bool_):
        raise BadInput(name, value, "need a number, not true or false")


def _choices(kind: object) -> str:
    """The values of a Literal, also inside an optional, as `a|b|c`."""
    if get_origin(kind) is Literal:
        return "|".join(str(choice) for choice in get_args(kind))
    return "".join(_choices(part) for part in get_args(kind))
