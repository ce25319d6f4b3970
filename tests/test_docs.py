"""The documentation: tables come from results/, commands can be typed as printed."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import make_tables
import pytest
import typer
from typer.testing import CliRunner

import favano
from favano.cli.app import app
from favano.cli.flags import our_options
from favano.methods import ClientUpdates, Context, Method
from favano.planning.comparison import comparison
from favano.policies import Policy
from favano.specification.presets import resolve
from favano.specification.readings import READING
from favano.specification.spec import ALGORITHM, make_spec, part_options
from favano.studies.points import parse_grid
from favano.studies.tune import plan_search
from favano.timing import parse_link

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = [
    shlex.split(line, comments=True)
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if language == "sh"
]
KEYS = {ALGORITHM, READING, *part_options(), *our_options()}


def prose(page: Path) -> str:
    """A page without the tables that are made from results."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"<!-- ([\w-]+): made by .*?<!-- end of \1 -->", "", text, flags=re.DOTALL)


def test_tables_are_made_from_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_tables.py", "--check"])
    assert make_tables.main() == 0, capsys.readouterr().err


def test_a_figure_has_its_own_folders_and_none_of_a_longer_name(tmp_path: Path) -> None:
    made = make_tables.made
    shortened = ["figure-cifar10-bf16", "figure-cifar10-bf16-horizon-4000"]
    for name in ("figure-mnist-slow", *reversed(shortened)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs.csv").touch()
    assert made("figure-mnist", tmp_path) == []
    assert made("figure-mnist-slow", tmp_path) == ["figure-mnist-slow"]
    assert made("figure-cifar10", tmp_path) == shortened  # the fewest changes first


def test_every_key_is_explained_or_obvious() -> None:
    """A flag of the readings page exists, so that the page cannot rot."""
    text = (ROOT / "docs" / "reference" / "readings.md").read_text()
    flags = {flag.replace("-", "_") for flag in re.findall(r"--(?:no-)?([a-z][a-z-]+)", text)}
    assert flags <= KEYS


def test_every_test_that_the_page_on_security_names_exists() -> None:
    text = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    tests = {path.name: path.read_text() for path in (ROOT / "tests" / "flower").glob("test_*.py")}
    named = re.findall(r"`(?:(test_\w+\.py)(?:::)?)?(test_\w+)?`", text)
    assert len(named) > 30
    file = ""
    for path, test in named:
        file = path or file
        assert file in tests
        assert not test or f"def {test}(" in tests[file], f"{file}::{test}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_is_cut_in_two(page: Path) -> None:
    """After a blank line a table begins with its headings, and a rule under them."""
    lines = page.read_text(encoding="utf-8").splitlines()
    firsts = [n for n, line in enumerate(lines) if line[:2] == "| " and lines[n - 1][:1] != "|"]
    assert [lines[n] for n in firsts if not lines[n + 1].startswith("|---")] == []


@pytest.mark.parametrize(
    "name", ["README.md", "docs/reference/readings.md", "docs/reference/reproduction.md"]
)
def test_accuracies_are_not_typed_by_hand(name: str) -> None:
    """They would stay when results change; a table made from results has them."""
    assert re.findall(r"\d+(?:\.\d+)? (?:±|%) ?\S*", prose(ROOT / name)) == []


def test_speeds_are_not_typed_by_hand() -> None:
    """They come from benchmarks/results/, in tables."""
    text = prose(ROOT / "docs" / "reference" / "performance.md")
    unit = r"(?:s|ms|us|minutes?|seconds?|times|%|MiB|MB|steps/s|images/s|TFLOP/s|TB/s)"
    assert re.findall(rf"\d(?:[\d,.]*\d)? ?{unit}(?![\w-])", text) == []


@pytest.mark.parametrize("words", [words for words in COMMANDS if words[:1] == ["favano"]])
def test_commands_of_the_readme_are_understood(words: list[str]) -> None:
    """Every flag and value is taken; a folder that is read was written by a line above."""
    command = typer.main.get_command(app)
    context = command.make_context("favano", words[1:])
    while (rest := [*context._protected_args, *context.args]) and hasattr(command, "commands"):
        command = command.commands[rest[0]]
        context = command.make_context(rest[0], rest[1:], parent=context)
    given = {k: v for k, v in context.params.items() if k in KEYS and v is not None}
    if words[1] == "compare":
        names = context.params["algorithms"].split(",")
        methods = [{"algorithm": name} for name in names]
        assert comparison(given, methods, context.params["set_"] or [])
    elif words[1] == "report":
        written = [line[line.index("--out") + 1] for line in COMMANDS if "--out" in line]
        assert {str(folder) for folder in context.params["folders"]} <= set(written)
    elif words[1] != "reproduce":
        assert resolve(make_spec(given))


def test_the_command_of_the_page_on_tuning_is_understood() -> None:
    """All but the training: its points are those of the page."""
    text = (ROOT / "docs" / "how-to" / "tuning.md").read_text(encoding="utf-8")
    words = shlex.split(re.findall(r"^```sh\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)[0])
    command = typer.main.get_command(app).commands["tune"]  # type: ignore[attr-defined]
    given = command.make_context("tune", words[2:]).params
    names = given["algorithms"].split(",")
    specs = comparison({}, [{"algorithm": name} for name in names])
    points, rungs = plan_search(specs, parse_grid(given["grid"], names), given["search"], None)
    assert [len(some) for some in points] == [6, 6]
    assert rungs == ((1.0, 6),)


def test_the_readme_has_commands_without_placeholders() -> None:
    assert {words[1] for words in COMMANDS if words[:1] == ["favano"]} >= {"run", "compare", "plan"}
    assert [word for words in COMMANDS for word in words if re.fullmatch(r"[A-Z]{3,}", word)] == []


def test_every_make_target_has_a_rule() -> None:
    text = (ROOT / "Makefile").read_text()
    rules = set(re.findall(r"^([a-z][\w-]*):", text, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    assert set(phony.group(1).split()) <= rules
    named = re.findall(r"\bmake ([a-z][\w-]*)", "".join(page.read_text() for page in PAGES[:2]))
    assert {"demo", "test", "docs"} <= set(named) & rules


TASKS = [
    block
    for name in (
        "how-to/own-problem.md",
        "explanation/selection.md",
        "how-to/tuning.md",
        "how-to/adapters.md",
    )
    for block in re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / name).read_text(encoding="utf-8"), re.DOTALL
    )
]


@pytest.mark.parametrize("block", TASKS)
def test_the_tasks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is short, and prints something."""
    assert len([line for line in block.splitlines() if line.strip()]) <= 15
    exec(compile(block, "docs", "exec"), {"__name__": "docs"})
    assert capsys.readouterr().out.strip()


def test_the_page_on_policies_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file, the command, the TOML file and Python: all plan the same schedule."""
    text = (ROOT / "docs" / "how-to" / "own-policy.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)
    kinds = [kind for kind, _ in blocks]
    assert kinds == ["python", "sh", "toml", "python"]
    (_, policy), (_, command), (_, toml), (_, use) = blocks
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "least_recent.py").write_text(policy)
    (tmp_path / "run.toml").write_text(toml)
    more = ["--selected", "3", "--json"]
    plans = []
    for words in (shlex.split(command), ["favano", "plan", "run.toml", "--horizon", "200"]):
        assert CliRunner().invoke(app, ["plan", *words[2:], *more]).exit_code == 0
        plans.append(json.loads(CliRunner().invoke(app, ["plan", *words[2:], *more]).stdout))
    assert plans[0] == plans[1]
    exec(compile(use, "docs/how-to/own-policy.md", "exec"), {"favano": favano})
    assert f"{plans[0]['server_steps']} server steps" in capsys.readouterr().out


def test_the_page_on_fleets_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are written under the names in their first lines; commands and Python run in order."""
    text = (ROOT / "docs" / "how-to" / "fleets.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)
    assert [kind for kind, _ in blocks] == [
        "sh",
        "python",
        "sh",
        "toml",
        "text",
        "toml",
        "sh",
        "python",
    ]
    for kind, block in blocks:
        if kind == "toml":
            (tmp_path / block.partition("\n")[0].removeprefix("# ")).write_text(block)
        elif kind == "python":
            exec(compile(block, "docs/how-to/fleets.md", "exec"), {"__name__": "docs"})
            assert capsys.readouterr().out.strip()
        else:
            assert CliRunner().invoke(app, shlex.split(block)[1:]).exit_code == 0


def test_the_presets_of_links_are_those_of_the_page() -> None:
    text = (ROOT / "docs" / "how-to" / "fleets.md").read_text(encoding="utf-8")
    for name, numbers in re.findall(r"`(home|mobile)` (?:is )?([\d:.]+\d)", text):
        rates = [parse_link(way, 1, 0) for way in (name, numbers)]
        assert rates[0] == rates[1]
    assert favano.Fleet.phones(1).step_law in text


def test_the_readme_stands_alone() -> None:
    """Elsewhere a picture of this repository would be a broken link."""
    assert "![" not in README
    assert "install PyTorch's CPU build first" in README  # pip fetches gigabytes otherwise


def test_what_is_no_longer_used_is_not_mentioned() -> None:
    pages = [page for page in PAGES if page.parent.name != "adr"]
    assert [page.name for page in pages if "plotly" in page.read_text().lower()] == []


AUTHORS = (ROOT / "docs" / "how-to" / "own-method.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", AUTHORS, re.DOTALL))
def test_the_methods_of_the_page_for_authors_run(
    block: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(
        compile(block, "docs/how-to/own-method.md", "exec", dont_inherit=True),
        {"__name__": "authors"},
    )
    assert capsys.readouterr().out.strip()


def test_the_page_for_authors_names_every_hook_and_attribute() -> None:
    """Those that may be written, and those that may be read; internal ones are left out."""
    internal = {
        Method: {"declare", "bind", "hook", "job_rates", "has", "corrects", "given", "refusal",
                 "context", "run_policy", "name", "label", "import_path", "plot_style",
                 "policy_options", "meaningless", "distances"},
        Policy: {"declare", "given", "refusal", "check", "name", "import_path", "started",
                 "steps_of", "longest_job", "grows", "most_steps", "queues", "server_pause",
                 "client_pause"},
        Context: {"count_samples", "run_policy"},
        ClientUpdates: set(),
    }  # fmt: skip
    for kind, hidden in internal.items():
        known = {*dir(kind), *getattr(kind, "__dataclass_fields__", {})}
        public = {name for name in known if not name.startswith("_")} - hidden
        named = set(re.findall(r"`\.?([a-z_]+)", AUTHORS)) | set(
            re.findall(r"([a-z_]+)\(", AUTHORS)
        )
        assert public - named == set()


@pytest.mark.parametrize(
    ("written", "sentence"),
    re.findall(r"^\| `([^`]+)` \| (\w.* mean .*\?) \|$", AUTHORS, re.MULTILINE),
)
def test_the_sentences_of_the_page_for_authors_are_said(written: str, sentence: str) -> None:
    body = "" if written.startswith("HeavyBuffer") else written
    if body.startswith("def"):
        body = f"{body}: return state"
    lines = {
        "policy": "return self.context.rounds()",
        "aggregate": "return state",
        ("policy" if "context" in body else "aggregate"): f"return {body}",
    }
    hooks = [f"def policy(self): {lines['policy']}",
             f"def aggregate(self, state, updates): {lines['aggregate']}"]  # fmt: skip
    whole = [body] if body.startswith("def") else hooks
    code = "\n    ".join(["class Mine(favano.Method):", *whole])
    use = "favano.FedBuff(bufer=3)" if not body else "favano.plan(Mine(), horizon=50)"
    with pytest.raises(favano.BadInput, match=re.escape(sentence)):
        exec(f"{code if body else ''}\n{use}", {"favano": favano, "__name__": "docs"})
