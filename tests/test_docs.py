"""The documentation: tables come from results/, commands can be typed as printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import make_picture
import make_tables
import pytest

import favano
from favano.cli.flags import our_options
from favano.methods import ClientUpdates, Context, Method
from favano.policies import Policy
from favano.specification.readings import READING
from favano.specification.spec import ALGORITHM, part_options
from favano.timing import parse_link

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
KEYS = {ALGORITHM, READING, *part_options(), *our_options()}


def prose(page: Path) -> str:
    """A page without the tables that are made from results, and outputs that are compared."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"```text title=\"Output.*?```", "", text, flags=re.DOTALL)
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


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
def test_links_of_pages_outside_of_the_site_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text(encoding="utf-8"))
    assert len(links) > 1
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_make_target_has_a_rule() -> None:
    text = (ROOT / "Makefile").read_text()
    rules = set(re.findall(r"^([a-z][\w.-]*):", text, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    assert set(phony.group(1).split()) <= rules
    named = re.findall(r"\bmake ([a-z][\w-]*)", "".join(page.read_text() for page in PAGES[:2]))
    assert {"demo", "test", "docs"} <= set(named) & rules


def test_the_presets_of_links_are_those_of_the_page() -> None:
    text = (ROOT / "docs" / "how-to" / "fleets.md").read_text(encoding="utf-8")
    for name, numbers in re.findall(r"`(home|mobile)` (?:is )?([\d:.]+\d)", text):
        rates = [parse_link(way, 1, 0) for way in (name, numbers)]
        assert rates[0] == rates[1]
    assert favano.Fleet.phones(1).step_law in text


def test_the_readme_is_short_and_has_one_picture() -> None:
    assert len(README.splitlines()) < 120
    assert re.findall(r"!\[.+\]\((.+)\)", README) == ["docs/images/results.svg"]
    assert make_picture.picture() == make_picture.PICTURE.read_text(encoding="utf-8")
    assert "install PyTorch's CPU build first" in README  # pip fetches gigabytes otherwise


def test_what_is_no_longer_used_is_not_mentioned() -> None:
    assert [page.name for page in PAGES if "plotly" in page.read_text().lower()] == []


AUTHORS = (ROOT / "docs" / "how-to" / "own-method.md").read_text(encoding="utf-8")


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
