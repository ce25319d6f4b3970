"""`favano theory`: every command in words and in JSON, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest

from favano.cli.shell import screen
from tests.cli.test_cli import Program, favano  # noqa: F401

SMALL = ("--clients", "8", "--selected", "2", "--local-steps", "3")
COMMANDS = ("steps", "alpha", "bound", "complexity", "learning-rate", "advise")


@pytest.mark.quick("alpha")
@pytest.mark.parametrize("command", COMMANDS)
def test_words_and_one_document(command: str, favano: Program) -> None:  # noqa: F811
    code, out, err = favano("theory", command, *SMALL)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) > 4
    code, out, err = favano("theory", command, *SMALL, "--json")
    assert (code, err) == (0, "")
    assert isinstance(json.loads(out, parse_constant=pytest.fail), dict)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_numbers_are_about_comes_first(command: str, favano: Program) -> None:  # noqa: F811
    """Without a data set they are about digits, not about the paper's experiment."""
    with_constants = command not in ("steps", "alpha")
    flags = ("--smoothness", "2", "--gap", "0.5") if with_constants else ()
    _, out, _ = favano("theory", command, *SMALL, *flags)
    first, second = out.splitlines()[:2]
    assert first == "digits: n = 8, s = 2, K = 3"
    assert (second == "L = 2, sigma = 1, G = 1, B = 1, F = 0.5") == with_constants


def test_a_pilot_measures_instead(favano: Program) -> None:  # noqa: F811
    flags = ("--clients", "5", "--selected", "2", "--horizon", "28", "--pilot", "--json")
    code, out, err = favano("theory", "advise", *flags)
    assert (code, err) == (0, "")
    estimates = json.loads(out)["estimates"]
    assert estimates["smoothness"]["low"] < estimates["smoothness"]["value"]
    code, out, _ = favano("theory", "learning-rate", *flags)
    assert code == 0
    assert json.loads(out)["problem"]["smoothness"] == estimates["smoothness"]["value"]


@pytest.mark.quick("*-slow_mean=-3*", "*-growth=1e+200*", "*-P(E > 0)*")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("bound", "--smoothness", "-1"), "smoothness=-1.0: need 1e-30..1e30"),
        (("bound", "--rounds", "0"), "rounds=0: need 1..1e30"),
        (("steps", "--clients", "10", "--selected", "11"), "selected=11: need 1..clients (10)"),
        (("steps", "--slow-mean", "-3"), "slow_mean=-3: need greater than 0"),
        (("steps", "--slow-mean", "inf"), "slow_mean=inf: need a finite number"),
        (("complexity", "--target", "0"), "target=0.0: need 1e-30..1e30"),
        (("advise", "--growth", "0.5"), "growth=0.5: need 1..1e30"),
        (("bound", "--smoothness", "1e300"), "smoothness=1e+300: need 1e-30..1e30"),
        (("learning-rate", "--smoothness", "1e-300"), "smoothness=1e-300: need 1e-30..1e30"),
        (("complexity", "--growth", "1e200"), "growth=1e+200: need 1..1e30"),
        (("advise", "--noise", "1e200"), "noise=1e+200: need 0..1e30"),
        (("complexity", "--target", "1e-300"), "target=1e-300: need 1e-30..1e30"),
        (("advise", "--target", "1e-300"), "target=1e-300: need 1e-30..1e30"),
        (("bound", "--rounds", f"1{'0' * 400}"), f"rounds=1{'0' * 199}...: need 1..1e30"),
        (
            ("bound", "--horizon", "1e308", "--waiting-time", "1e-5", "--interaction-time", "0"),
            "horizon=1e+308: need at most 1e30 server steps, which last 1e-05 here",
        ),
        (("bound", "--fast-mean", "1e300", "--slow-mean", "1e300"), "P(E > 0)=3.4999"),
        (("alpha", "--reweight", "none"), "reweight=none: the theorem needs"),
        (("alpha", "--interruption", "keep"), "interruption=keep: has no exact law"),
        (("steps", "--algorithm", "fedavg"), "algorithm=fedavg: does not poll clients; the law"),
        (
            ("learning-rate", "--pilot", "--smoothness", "1"),
            "smoothness=1.0: remove it, or --pilot, which estimates the constants",
        ),
        (("advise", "--pilot", "--growth", "2"), "growth=2.0: remove it, or --pilot"),
    ],
)
def test_bad_input_ends_with_one_sentence(
    arguments: tuple[str, ...],
    sentence: str,
    favano: Program,  # noqa: F811
) -> None:
    code, out, err = favano("theory", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"favano: {sentence}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_steps_that_the_theorem_is_not_about_are_refused(
    command: str,
    favano: Program,  # noqa: F811
) -> None:
    rule = "need plain SGD and no server transforms, since the theorem is about"
    for flag, value in (("--optimiser", "adam"), ("--momentum", "0.9")):
        code, out, err = favano("theory", command, flag, value)
        assert (code, out) == (2, "")
        assert err == f"favano: {flag[2:]}={value}: {rule} the method's own steps\n"


@pytest.mark.quick("bound")
@pytest.mark.parametrize("command", ["bound", "learning-rate", "complexity", "advise"])
def test_numbers_of_extreme_constants_are_short(
    command: str,
    favano: Program,  # noqa: F811
) -> None:
    for ends in (("1e30", "1e30"), ("1e-30", "0"), ("1e30", "0")):
        constants = zip(("--smoothness", "--noise", "--gap"), (*ends, "1e30"), strict=True)
        flags = (word for pair in constants for word in pair)
        code, out, err = favano("theory", command, *SMALL, *flags)
        assert (code, err) == (0, "")
        assert not re.search(r"\d[\d,]{25}", out)


def test_one_server_step_is_no_plural(favano: Program) -> None:  # noqa: F811
    _, out, _ = favano("theory", "learning-rate", *SMALL, "--rounds", "1")
    assert "Best after 1 server step: " in out
    _, out, _ = favano("theory", "bound", *SMALL, "--rounds", "1")
    assert "\nmean of ||grad f||^2 after 1 server step is at most" in out
    _, out, _ = favano("plan", *SMALL, "--horizon", "8")
    assert out.splitlines()[0].rstrip().endswith(", 1 server step")


def test_the_table_of_all_methods_takes_no_method(favano: Program) -> None:  # noqa: F811
    code, out, err = favano("theory", "complexity", "--algorithm", "fedavg")
    assert (code, out) == (2, "")
    assert "No such option" in err


@pytest.mark.quick("40-theory bound")
@pytest.mark.parametrize(
    "command", [["theory", "complexity"], ["theory", "bound"], ["plan"]], ids=" ".join
)
@pytest.mark.parametrize("width", [40, 60])
def test_no_number_is_cut_on_a_narrow_screen(
    command: list[str],
    width: int,
    favano: Program,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1.385e+04 would read as 1.38."""
    monkeypatch.setattr(screen, "_width", width)
    code, out, _ = favano(*command)
    assert code == 0
    assert max(map(len, out.splitlines()[:12])) <= width
    assert "…" not in out
