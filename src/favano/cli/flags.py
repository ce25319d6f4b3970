"""A flag for every key of a specification, and help texts that group them by part."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated, cast

import typer
from typer.core import TyperCommand, TyperOption

from favano.cli.progress import decoding
from favano.cli.shell import TRACEBACK, say
from favano.code_digest import file_digest
from favano.errors import require
from favano.methods import AnyMethod, all_methods, method_class
from favano.methods.clock import ServerClock
from favano.options import Option, Options, options_of, place_of
from favano.planning.comparison import keys_for, keys_with_readings, read_keys
from favano.planning.planned import OPEN_KEYS
from favano.policies import Policy
from favano.policies.registry import NAME, all_policies, policy_class
from favano.policies.selection_names import KEY as SELECTION
from favano.run.data import with_clients, with_holdout
from favano.specification.config import SERVER, read_config
from favano.specification.config import Config as ConfigFile
from favano.specification.federation_keys import simulated_keys
from favano.specification.presets import check_named
from favano.specification.readings import KEYS as READING_KEYS
from favano.specification.readings import READING, READINGS
from favano.specification.spec import (
    ALGORITHM,
    LABEL,
    PARTS,
    POLICY,
    Spec,
    make_spec,
    part_options,
)
from favano.user_classes import file_of, is_ours

Values = dict[str, object]

Config = Annotated[
    Path | None, typer.Argument(metavar="CONFIG.toml", help="keys of a run; flags override them")
]
DataDir = Annotated[
    Path | None, typer.Option(help="folder of Parquet files [default: $FAVANO_DATA]")
]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="result folder")]
Trust = Annotated[
    list[Path] | None,
    typer.Option("--trust", metavar="FILE.py", help="execute this file, if DIR names it"),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]

_Traceback = Annotated[
    bool, typer.Option(TRACEBACK, help="of an error in a file of yours, show where it comes from")
]

ALGORITHMS = "algorithms"
_OWN = "own_options"  # of a user's methods, as KEY=VALUE
_OWN_FLAG = "--own-options"
_METHOD, _POLICY, _HIDDEN = "method", "policy", "hidden"
_COLUMN = 36  # where help texts begin
_TITLES: Mapping[str, str] = {
    "problem": "Problem",
    "fleet": "Fleet",
    "clock": "Server's clock",
    "server": "Server",
    "training": "Local training",
    "run": "Run",
}
_NAMES: Mapping[str, str] = {
    ALGORITHM: "the method: a name, or file.py:Name [default: favano]",
    LABEL: "name of the method in tables and on pages",
    POLICY: "whom the server asks and when: a name, or file.py:Name [default: the method's own]",
    READING: f"reading of the paper, or several with commas between them: {', '.join(READINGS)}",
}
_ALL_FLAG = "--help-all"
_ESSENTIAL = (  # what nine of ten runs set
    "dataset", "split", "model", "batch_size", "clients", "fast_fraction", "slow_mean", "selected",
    "learning_rate", "local_steps", "codec", "horizon", "seeds", "evaluate_every", "device",
)  # fmt: skip
_SELDOM = (  # of a command
    "checkpoint_every", "label", POLICY, "cluster", "data_dir", READING, "traceback",
)  # fmt: skip


class SpecCommand(TyperCommand):
    """A command with the flags of a specification.

    Its help has what most runs set, and the options of methods that the command line names. With
    --help-all it is grouped by part and shows every flag that the command takes; if methods are
    named, without the options of others and the keys of the clock that they do not read.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Find the methods first, since their options are flags."""
        asked, policies = _named(args), _named_policies(args)
        named = asked or {"favano": None}
        kinds: list[type[AnyMethod]] = [method_class(name) for name in named]
        asking: list[type[Policy]] = [policy_class(name) for name in policies]
        _say_executed({**named, **policies, **_named_parts(args)})
        for kind in (*kinds, *(policy for policy in asking if not is_ours(policy))):
            self._need_free_flags(ctx, kind)
        options = {
            name: option for kind in (*kinds, *asking) for name, option in options_of(kind).items()
        }
        shared = our_options().keys() | part_options().keys()
        own = {name: option for name, option in options.items() if name not in shared}
        whole = _ALL_FLAG in args
        ctx.meta[_METHOD], ctx.meta[_POLICY] = kinds if asked else [], asking
        real = simulated_keys() if self.name == "serve" else set()
        ctx.meta[_HIDDEN] = real if whole and not asked else _unread_keys(kinds, asking) | real
        ctx.meta[_ALL_FLAG] = whole
        args = ["--help" if word == _ALL_FLAG else word for word in args]
        return super().parse_args(ctx, _with_own(ctx, args, own))

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list:  # type: ignore[type-arg, override]
        """All flags: those that our own help writes are hidden from Typer's."""
        for parameter in self.get_params(ctx):
            if isinstance(parameter, TyperOption):
                parameter.hidden = False
        return super().shell_complete(ctx, incomplete)

    def _need_free_flags(self, ctx: typer.Context, kind: type[Options]) -> None:
        """Refuse a method or policy whose options have the names of flags of this command."""
        taken = {
            flag
            for parameter in self.get_params(ctx)
            for flag in (*parameter.opts, *parameter.secondary_opts)
        }
        shared = our_options().keys() | part_options().keys()  # a specification refuses the latter
        own = [option for name, option in options_of(kind).items() if name not in shared]
        clash = ", ".join(flag for option in own for flag in _flags(option) if flag in taken)
        rule = f"has options that are flags of this command: {clash}; rename them"
        key = POLICY if issubclass(kind, Policy) else ALGORITHM
        require(not clash, key, getattr(kind, "name", kind.__name__), rule)

    def format_options(self, ctx: typer.Context, formatter: object) -> None:  # type: ignore[override]
        """Write the flags of the command, of each method and of each part, or the few of most runs.

        The short help has the flags of methods and policies that the command line names.
        """
        whole: bool = ctx.meta[_ALL_FLAG]
        left_out = [READING] if whole else _SELDOM
        own = [parameter for parameter in self.params if parameter.name not in left_out]
        records = (parameter.get_help_record(ctx) for parameter in own)
        groups = {"Command": [record for record in records if record]}
        for kind in ctx.meta[_METHOD]:
            groups[f"Method {kind.name}"] = [
                _record(option) for option in options_of(kind).values()
            ]
        for policy in ctx.meta[_POLICY]:
            groups[f"Policy {policy.name}"] = [
                _record(option)
                for name, option in options_of(policy).items()
                if name not in part_options() or not is_ours(policy)
            ]
        known = {key: option for key, (_, option) in part_options().items()}
        shown = [option for key, option in known.items() if key not in ctx.meta[_HIDDEN]]
        if whole:
            groups |= {
                title: [
                    _record(option)
                    for option in shown
                    if option.name in options_of(PARTS[part]) and option.name not in READING_KEYS
                ]
                for part, title in _TITLES.items()
            }
            named = [parameter for parameter in self.params if parameter.name == READING]
            records = (parameter.get_help_record(ctx) for parameter in named)
            groups["Readings of the paper"] = [
                *(record for record in records if record),
                *(_record(option) for option in shown if option.name in READING_KEYS),
            ]
            if not ctx.meta[_METHOD]:
                groups["Options of methods"] = _records_with_owners(all_methods().values())
            if not ctx.meta[_POLICY] and POLICY in (each.name for each in self.params):
                own_flags = _records_with_owners(all_policies().values(), known | our_options())
                groups["Options of policies"] = own_flags
        else:
            groups["Run"] = [_record(known[key]) for key in _ESSENTIAL if known[key] in shown]
        lines = [line for title, records in groups.items() for line in _section(title, records)]
        text = "\n".join([*lines, "", *_footer(whole=whole)])
        formatter.write(f"{text}\n")  # type: ignore[attr-defined]


def _records_with_owners(
    kinds: Iterable[type[AnyMethod] | type[Policy]], listed: Collection[str] = ()
) -> list[tuple[str, str]]:
    """The options of several methods or policies, each after the names of those that have it.

    Without those that are listed elsewhere.
    """
    owners: dict[tuple[str, str], list[str]] = {}
    for kind in kinds:
        for name, option in options_of(kind).items():
            if name not in listed:
                owners.setdefault(_record(option), []).append(kind.name)
    return [(flag, f"{', '.join(names)}: {text}") for (flag, text), names in owners.items()]


def _unread_keys(kinds: Sequence[type[AnyMethod]], policies: Sequence[type[Policy]]) -> set[str]:
    """Keys that do not matter to these methods under these policies, or their own."""
    asking: list[Policy | None] = [policy() for policy in policies] or [None]
    read = {key for kind in kinds for policy in asking for key in read_keys(kind(), policy)}
    return {*options_of(ServerClock), *OPEN_KEYS} - read


def _section(title: str, records: Sequence[tuple[str, str]]) -> list[str]:
    """The help of a group of flags."""
    width = _width() - _COLUMN - 2
    lines = ["", f"{title}:"] if records else []
    for flag, text in records:
        first, *rest = wrap(text, width, break_on_hyphens=False) or [""]
        if len(flag) > _COLUMN - 4:
            lines.append(f"  {flag}")
            flag = ""
        lines.append(f"  {flag:{_COLUMN - 2}}{first}")
        lines += [" " * _COLUMN + line for line in rest]
    return lines


def _footer(*, whole: bool) -> list[str]:
    if not whole:
        text = (
            f"{_ALL_FLAG} shows all flags, --algorithm NAME --help those of a method. Defaults are "
            f"in brackets; --no-NAME turns a flag off. Methods: {', '.join(all_methods())}, or "
            "file.py:Name."
        )
        return wrap(text, _width())
    text = (
        "Defaults are in brackets; --no-NAME turns a flag off. Methods: "
        f"{', '.join(all_methods())}, or file.py:Name. --algorithm NAME --help-all shows the flags "
        "of a method, `favano methods NAME` explains it."
    )
    return wrap(text, _width())


def _width() -> int:
    return min(100, max(60, get_terminal_size().columns))


def our_options() -> dict[str, Option[object]]:
    """The options of all registered methods by name."""
    kinds = all_methods().values()
    return {name: option for kind in kinds for name, option in options_of(kind).items()}


def with_spec_flags(
    command: Callable[..., None], leave_out: tuple[str, ...] = ()
) -> Callable[..., None]:
    """Give a command a flag for every key; it gets those that are set as `flags`."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    keys = [name for name in _NAMES if name not in leave_out]
    every = {name: option for name, (_, option) in part_options().items()} | our_options()
    names = [*keys, *every]

    lists = {name for name, option in every.items() if option.is_list}

    def wrapper(**arguments: object) -> None:
        flags = {name: arguments.pop(name) for name in names}
        given = {key: value for key, value in flags.items() if value is not None}
        given |= dict(text.split("=", 1) for text in cast(list[str], arguments.pop(_OWN) or []))
        arguments.pop("traceback")  # it is read where an error is shown
        for name in lists & given.keys():
            given[name] = str(given[name]).split(",")
        command(flags=given, **arguments)

    parameters = [parameter for parameter in own if parameter.name != "flags"]
    parameters += [_parameter(name, str, text=_NAMES[name]) for name in keys]
    parameters += [_parameter(option.name, option.kind) for option in every.values()]
    parameters.append(_parameter(_OWN, list))
    only = inspect.Parameter.KEYWORD_ONLY
    shown = inspect.Parameter("traceback", only, default=False, annotation=_Traceback)
    parameters.append(shown)
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__doc__ = command.__doc__
    return wrapper


def spec_from(config: Path | None, flags: Values) -> Spec:
    """The specification of one run: the keys of a file, overridden by flags."""
    return _named_spec(keys_of_one(read_config(config), flags))


def spec_with_data(config: Path | None, flags: Values, data_dir: Path | None) -> Spec:
    """The same; a natural split takes the number of clients from the data."""
    return _named_spec(counted(keys_of_one(read_config(config), flags), data_dir))


def counted(keys: Values, data_dir: Path | None) -> Values:
    """The keys, with the number of clients in the data where their split is natural."""
    with decoding(str(keys.get("dataset"))) as on_image:
        return with_clients(keys, data_dir, on_image)


def held_out(keys: Values, data_dir: Path | None) -> Values:
    """The keys, with a fifth of the training samples held out if they do not say how many."""
    with decoding(str(keys.get("dataset"))) as on_image:
        return with_holdout(keys, data_dir, on_image)


def _named_spec(keys: Values) -> Spec:
    spec = make_spec(keys)
    check_named(spec)
    return spec


def keys_of_one(file: ConfigFile, flags: Values) -> Values:
    """The keys of one run, with the first method of the file or the one named by a flag."""
    wanted = flags.get(ALGORITHM)
    named = [
        method for method in file.methods if wanted in (None, method.get(LABEL), method[ALGORITHM])
    ]
    first = named[0] if named else {ALGORITHM: wanted} if wanted else {}
    shared = keys_for(file.shared, [first], file.methods) if first else file.shared
    rest = {key: value for key, value in flags.items() if key != ALGORITHM}
    return keys_with_readings(with_flags({**shared, **first}, rest))


def with_flags(keys: Values, flags: Values) -> Values:
    """Keys of a file, overridden by flags; a policy that they both name keeps its options."""
    held = keys.get(POLICY)
    if isinstance(held, dict) and flags.get(POLICY) == held.get(NAME):
        flags = {key: value for key, value in flags.items() if key != POLICY}
    return {**keys, **flags}


def _named(args: Sequence[str]) -> dict[str, Path | None]:
    """The methods named by a command line: in flags, by name or label, or else in its files.

    With the file that names each; None: a flag does.
    """
    asked = _values_of(args, ALGORITHM)
    asked += [name for names in _values_of(args, ALGORITHMS) for name in names.split(",")]
    listed = [(path, table) for path, table in _tables(args) if ALGORITHM in table]
    by_file = {str(method[ALGORITHM]): path for path, method in listed}
    labels = {str(method.get(LABEL)): str(method[ALGORITHM]) for _, method in listed}
    names = [labels.get(name, name) for name in asked if name] or list(by_file)
    return {name: None if name in asked else by_file[name] for name in names}


def _values_of(args: Sequence[str], key: str) -> list[str]:
    """What a command line gives for a key."""
    values = []
    for place, word in enumerate(args):
        flag, equals, value = word.partition("=")
        if flag == f"--{key}":
            values.append(value if equals else "".join(args[place + 1 : place + 2]))
    return values


def _named_policies(args: Sequence[str]) -> dict[str, Path | None]:
    """The policies that a command line names, or else its files, with the file."""
    if asked := _values_of(args, POLICY):
        return dict.fromkeys(asked[-1:])
    held = ((path, table.get(POLICY)) for path, table in _tables(args))
    return {str(table.get(NAME)): path for path, table in held if isinstance(table, dict)}


def _named_parts(args: Sequence[str]) -> dict[str, Path | None]:
    """The server transforms and selections that files on a command line name, with the file."""
    listed = []
    for path, table in _tables(args):
        chain = table.get(SERVER)
        parts = [*(chain if isinstance(chain, list) else ()), table.get(SELECTION, "")]
        listed += [(place_of(str(text))[0], path) for text in parts]
    return dict(listed)


def _tables(args: Sequence[str]) -> list[tuple[Path, Values]]:
    """What the files on a command line say: of each method, then of all."""
    pairs = zip(["", *args], args, strict=False)
    words = [Path(word) for before, word in pairs if before != "--faults"]  # which is no config
    files = {path: read_config(path) for path in words if _is_config(path)}
    return [(path, table) for path, file in files.items() for table in (*file.methods, file.shared)]


def _is_config(path: Path) -> bool:
    return path.suffix == ".toml" and path.is_file()


def _say_executed(named: Mapping[str, Path | None]) -> None:
    """Say which Python files a configuration has executed: whoever runs it may not know them."""
    for name, config in named.items():
        if config is not None and (file := file_of(name)) is not None:
            digest = file_digest(file.resolve())
            say(f"{config} names {file} (SHA-256 {digest}), which is executed")


def _with_own(
    ctx: typer.Context, args: Sequence[str], own: Mapping[str, Option[object]]
) -> list[str]:
    """The arguments, with the options of a user's methods as values of one flag."""
    words, arguments = iter(args), []
    flags = {flag: option for option in own.values() for flag in _flags(option)}
    for word in words:
        typed, equals, value = word.partition("=")
        flag = typed.replace("_", "-")
        if (option := flags.get(flag)) is None:
            arguments.append(word)
            continue
        if option.kind is bool:
            if equals:
                ctx.fail(f"Option {typed!r} does not take a value.")  # as Click says of ours
            value = str(flag == _flags(option)[0])
        elif not equals:
            value = next(words, "")
        arguments += [_OWN_FLAG, f"{option.name}={value}"]
    return arguments


def _flags(option: Option[object]) -> list[str]:
    """The flags of an option."""
    name = option.name.replace("_", "-")
    return [f"--{name}", f"--no-{name}"] if option.kind is bool else [f"--{name}"]


def _record(option: Option[object]) -> tuple[str, str]:
    """The flag and the help text of an option."""
    flag, text = f"--{option.name.replace('_', '-')}", option.text
    text += f", {option.symbol}" if option.symbol else ""
    if option.kind is not bool:
        choice = "|" in option.values and len(flag) + len(option.values) + 5 > _COLUMN
        text += option.listed_choices if choice else ""
        flag += " WORD" if choice else f" {option.values}"
    default = option.shown_default
    return flag, text if default in ("", "False") else f"{text} [{default}]"


def _parameter(name: str, kind: object, text: str = "") -> inspect.Parameter:
    """A parameter for a flag; those without a text are listed by `SpecCommand` alone."""
    flag = "--" + name.replace("_", "-")
    flag = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
    option = typer.Option(flag, metavar="TEXT", help=text, hidden=not text)
    given: object = (
        bool | None if kind is bool else list[str] | None if kind is list else str | None
    )
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, default=None, annotation=Annotated[given, option])
