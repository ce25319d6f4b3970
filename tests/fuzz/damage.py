"""Damage to files. Every choice is made by a seeded generator, so a case is the same everywhere."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeAlias

Change: TypeAlias = Callable[[bytes, Random], bytes]

_TOKEN = re.compile(rb"[\w.+-]+|[^\w\s]")
_NUMBER = re.compile(rb"-?\d+(\.\d+)?(e[+-]?\d+)?")
NUMBERS = (
    b"0", b"-1", b"-7.5", b"1e-300", b"1e300", b"1e999", b"nan", b"-inf", b"NaN", b"Infinity",
    b"2147483648", b"9223372036854775807", b"18446744073709551616", b"9" * 400, b"9" * 5000,
)  # fmt: skip
VALUES = (
    b"null", b"true", b'""', b"''", b"[]", b"{}", b"[[]]", b'{"a": 1}', b'"x"', b"x", b"-", b",",
    b'"\\u0000"', b'"a\\nb"', b"'''a\nb'''", b"1979-05-27", b"\xff\xfe", b"\x00", b"\r", b"\x1b[2J",
    "é∞".encode(), b"a" * 200_000, b"[" * 5000, b'{"a":' * 5000,
)  # fmt: skip


def damage(path: Path, random: Random) -> None:
    """Change the content of a file; now and then, put something else in its place."""
    if random.random() < 0.05:
        path.unlink()
        random.choice(_OTHERS)(path)
    else:
        path.write_bytes(damaged(path.read_bytes(), random))


def damaged(data: bytes, random: Random) -> bytes:
    """One to three changes."""
    for change in random.choices(_CHANGES, k=random.randint(1, 3)):
        data = change(data, random)
    return data


def _flip_bits(data: bytes, random: Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(random.randint(1, 8) if data else 0):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _leave_out(data: bytes, random: Random) -> bytes:
    first, last = _slice(data, random)
    return data[:first] + data[last:]


def _repeat(data: bytes, random: Random) -> bytes:
    first, last = _slice(data, random)
    return data[:last] + data[first:]


def _insert(data: bytes, random: Random) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + random.randbytes(random.randint(1, 16)) + data[place:]


def _change_lines(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    line = lines.pop(random.randrange(len(lines)))
    for _ in range(random.choice((0, 1, 2))):  # gone, moved or doubled
        lines.insert(random.randint(0, len(lines)), line)
    return b"".join(lines)


def _swap_tokens(data: bytes, random: Random) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if len(tokens) < 2:
        return data
    token, other = sorted(random.sample(tokens, 2), key=lambda match: match.start())
    between = data[token.end() : other.start()]
    return data[: token.start()] + other[0] + between + token[0] + data[other.end() :]


def _replace_number(data: bytes, random: Random) -> bytes:
    return _replaced(data, random, [*_NUMBER.finditer(data)], NUMBERS)


def _replace_token(data: bytes, random: Random) -> bytes:
    return _replaced(data, random, [*_TOKEN.finditer(data)], (*VALUES, *NUMBERS))


def _anything(data: bytes, random: Random) -> bytes:
    return random.randbytes(random.choice((0, 1, 10, 1000)))


def _replaced(
    data: bytes, random: Random, matches: Sequence[re.Match[bytes]], values: Sequence[bytes]
) -> bytes:
    if not matches:
        return data
    match = random.choice(matches)
    return data[: match.start()] + random.choice(values) + data[match.end() :]


def _slice(data: bytes, random: Random) -> tuple[int, int]:
    first = random.randint(0, len(data))
    return first, min(len(data), first + random.randint(1, 64))


def _zeros(path: Path) -> None:
    """A file that is endless where it is read to its end."""
    path.symlink_to("/dev/zero")


def _itself(path: Path) -> None:
    path.symlink_to(path)


_OTHERS: Sequence[Callable[[Path], None]] = (Path.mkdir, os.mkfifo, _zeros, _itself)
_CHANGES: Sequence[Change] = (
    _flip_bits, _cut, _leave_out, _repeat, _insert, _change_lines, _swap_tokens, _anything,
    *[_replace_number, _replace_token] * 3,
)  # fmt: skip


def fresh_copy(source: Path, to: Path) -> None:
    """A copy of a folder without what an earlier case has left there."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to)
