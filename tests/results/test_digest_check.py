"""Pages and tables of results that were changed say so."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

import favano
from favano.cli.app import app
from favano.records import history_from_csv, history_to_csv
from favano.records.folder import HISTORY, SUMMARY
from favano.report.page import DIGESTS_AGREE
from favano.specification.keys import Keys


def test_whether_rows_are_as_they_were_written(tmp_path: Path) -> None:
    """A page and a table of changed numbers say so, and so do those without digests."""
    keys: Keys = {"selected": 2, "local_steps": 1, "horizon": 20.0, "evaluate_every": 10.0}
    made = favano.simulate("favano", "digits", favano.Fleet(clients=5), **keys)
    folder = made.save(tmp_path / "favano")
    history, text = folder / HISTORY, (folder / HISTORY).read_text()

    def told() -> tuple[str, str, str]:
        """What the check, the page and the terminal say."""
        page = tmp_path / "page.html"
        done = CliRunner().invoke(app, ["report", str(folder), "--out", str(page)])
        line = page.read_text(encoding="utf-8").partition('id="digests">')[2].partition("</p>")[0]
        verdict = favano.load(folder).results[0].digests.status
        return verdict, line.replace("&nbsp;", " "), done.output

    status, line, screen = told()
    assert (status, line) == ("agree", DIGESTS_AGREE)
    assert line in screen
    rows = history_from_csv(text)
    history.write_text(history_to_csv([*rows[:1], rows[1]._replace(loss=0.01), *rows[2:]]))
    status, line, screen = told()
    wrong = (
        "Changed: FAVANO: seed 0: row 2 (time 10) was changed, or does not follow row 1 (time 0)."
    )
    assert (status, line) == ("changed", wrong)
    assert line in screen
    history.write_text(history_to_csv([row._replace(digest="", model_digest="") for row in rows]))
    status, line, screen = told()
    assert (status, line) == (
        "unknown",
        "Not checked: FAVANO: has no digests, so nothing is proved.",
    )
    assert line in screen
    history.write_text(text)
    summary = folder / SUMMARY
    summary.write_text(summary.read_text().replace('"bits_up": ', '"bits_up": 1'))
    assert told()[1].startswith("Changed: FAVANO: seed 0: bits_up is 1")
