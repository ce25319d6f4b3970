"""What can go wrong, by whose fault. Bad input is a `ValueError` with name, value and rule."""

from __future__ import annotations

import linecache
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import format_exception, walk_tb
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import favano

_MOST, _MOST_OF_RULE = 200, 1500  # characters of a value and of a rule in a message
_MOST_OF_CODE = 100


class BadInput(ValueError):
    """The caller owes a better value: one sentence with its name, the value and the rule.

    It is one line, whatever the value holds. In the middle of runs, `results` hold the evaluations
    made until then.

    >>> BadInput("label", "a\\nb", "need one line")
    BadInput('label=a\\\\nb: need one line')
    """

    def __init__(self, name: str, value: object, rule: str) -> None:
        super().__init__(f"{one_line(name)}={one_line(value)}: {one_line(rule, _MOST_OF_RULE)}")
        self.name, self._parts = name, (name, str(value), rule)
        self.results: list[favano.Result] = []

    def __reduce__(self) -> tuple[type[BadInput], tuple[str, str, str], dict[str, object]]:
        """The same error in another process, with its cause."""
        return BadInput, self._parts, {"__cause__": _portable(self.__cause__)}


def one_line(text: object, most: int = _MOST) -> str:
    """A text on one line: not too long, and what is not printable is escaped.

    Whatever others have written goes through here before it is shown, logged or kept.

    >>> one_line("a\\x1b[2J" + "b" * 9, most=8)
    'a\\\\x1b[2Jbbb...'
    """
    whole = str(text)
    line = "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in whole[:most]
    )
    return line if len(whole) <= most else f"{line}..."


class NonFiniteUpdate(RuntimeError):
    """A client sent NaN or infinity, or an update made some of finite answers.

    If `favano.simulate` or `favano.compare` raises it, `result` holds all evaluations made, also
    those of other seeds and methods.
    """

    result: favano.Result | favano.Comparison

    def __init__(
        self, clients: list[int], server_step: int, time: float, run: str | None = None
    ) -> None:
        """Without clients it is the server model that is not finite, after this step."""
        when = f"server step {server_step}, at time {time:g},"
        self.cause = f"the server model after {when} holds NaN or infinity"
        advice = ", though no client update that was used did; lower the step of the server"
        if clients:
            who = ", ".join(str(client) for client in clients)
            self.cause = f"client {who}: the update for {when} holds NaN or infinity"
            advice = (
                " and was refused; lower the learning rate, or go on without such updates by "
                "non_finite=skip"
            )
        super().__init__(f"{'' if run is None else f'{run}, '}{self.cause}{advice}")
        self.clients, self.server_step, self.time, self.run = clients, server_step, time, run

    def __reduce__(self) -> tuple[type[NonFiniteUpdate], tuple[list[int], int, float, str | None]]:
        """The same error in another process."""
        return NonFiniteUpdate, (self.clients, self.server_step, self.time, self.run)


class Diverged(RuntimeError):
    """The server model of a federation is no longer finite, though all client updates were."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"round {number}: the server model has NaN or infinity; lower the step of the server"
        )


class WriteFailed(RuntimeError):
    """A result could not be written; what was in the folder before is untouched."""


class ClusterLost(RuntimeError):
    """No machine is left to go on; what was saved is kept."""


def require(condition: bool, name: str, value: object, rule: str) -> None:
    """Refuse `value` with one sentence unless `condition` holds.

    >>> require(3 <= 2, "selected", 3, "need 1..clients (2)")
    Traceback (most recent call last):
    favano.errors.BadInput: selected=3: need 1..clients (2)
    """
    if not condition:
        raise BadInput(name, value, rule)


class UserLine(NamedTuple):
    """Where code failed that is neither ours nor a library's."""

    function: str
    file: str
    number: int
    code: str

    def __str__(self) -> str:
        code = one_line(self.code, _MOST_OF_CODE)
        return f"{self.file}, line {self.number}{code and f': {code}'}"


def user_line(error: BaseException) -> UserLine | None:
    """The innermost line of the user's that an error went through; None if there is none."""
    mine = [place for place in walk_tb(error.__traceback__) if _is_users(place[0])]
    if not mine:
        return None
    frame, number = mine[-1]
    code, folder = frame.f_code, Path.cwd()
    path, line = Path(code.co_filename), linecache.getline(code.co_filename, number)
    shown = path.relative_to(folder) if path.is_relative_to(folder) else path
    return UserLine(code.co_qualname, str(shown), number, line.strip())


def _is_users(frame: FrameType) -> bool:
    """Whether code is the user's. What has no file, as generated code, is so only at a prompt."""
    path = Path(frame.f_code.co_filename)
    if path.name.startswith("<"):
        return frame.f_globals.get("__name__") == "__main__"
    installed = {"site-packages", "dist-packages"} & {*path.parts}
    not_theirs = (Path(__file__).parent, Path(os.__file__).parent)  # ours, and Python's
    return not installed and not any(map(path.is_relative_to, not_theirs))


def format_error(error: BaseException) -> str:
    """An error of a user's function in one line, with the user's line that it comes from.

    >>> format_error(RuntimeError("no such thing\\nat all")), format_error(AssertionError())
    ('RuntimeError: no such thing', 'AssertionError')
    """
    kind, line, place = type(error).__name__, str(error).partition("\n")[0], user_line(error)
    return f"{kind}{line and f': {line}'}{'' if place is None else f' ({place})'}"


@contextmanager
def in_hook(name: str, value: object, hook: str, *passing: type[Exception]) -> Iterator[None]:
    """An exception in a user's hook becomes BadInput with its name; `passing` ones do not."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (BadInput, *passing)):
            raise
        rule = f"{hook} raises {format_error(error)}".lstrip()
        raise BadInput(name, value, rule) from error


def own_failure(error: Exception) -> BadInput | None:
    """An exception in whatever code of the user's as BadInput; None if it comes from none."""
    if isinstance(error, BadInput):
        return error
    place = user_line(error)
    if place is None or isinstance(error, MemoryError):
        return None
    failure = BadInput("function", place.function, f"raises {format_error(error)}")
    failure.__cause__ = error
    return failure


def _portable(error: BaseException | None) -> BaseException | None:
    """An error as it can be sent to another process: its traceback becomes a note."""
    if error is None:
        return None
    try:
        sent: BaseException = pickle.loads(pickle.dumps(error))
    except Exception:  # those with arguments of their own
        sent = RuntimeError(format_error(error))
    sent.add_note("".join(format_exception(error)))
    return sent
