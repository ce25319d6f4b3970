"""A live page follows the runs, keeps what was chosen, and says when it is over."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest
from playwright.sync_api import expect

from favano.records import history_from_csv, history_to_csv
from favano.report import live
from favano.report.live import LivePage, live_server
from favano.results import collect

from .conftest import PATIENCE, Open


def test_new_evaluations_appear_and_choices_stay(
    opened: Open, compared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_PERIOD", 0.0)
    monkeypatch.setattr(live, "_SHARE", inf)
    (compared / "fedbuff" / "summary.json").unlink()  # it goes on: its rows say how far it is
    page = LivePage(lambda: collect([compared]), "Four", "there/report.html")
    with live_server(page) as address:
        seen = opened(address)
        window = seen.page
        expect(window.locator("#live")).to_contain_text("the runs go on")
        window.get_by_role("checkbox", name="FedAvg").uncheck()
        window.get_by_label("Differences against").select_option("FedAvg")
        window.get_by_role("radio", name="bits").click()
        final = window.locator("#final td[data-column=accuracy]").nth(2)
        before = final.inner_text()
        window.get_by_label("Differences against").focus()
        path = compared / "fedbuff" / "history.csv"
        rows = history_from_csv(path.read_text())
        late = [row._replace(time=row.time + 10, metrics={"accuracy": 0.95}) for row in rows[-1:]]
        path.write_text(history_to_csv([*rows, *late]))
        expect(final).not_to_have_text(before)
        expect(window.get_by_role("checkbox", name="FedAvg")).not_to_be_checked()
        assert window.locator("#curves .label").all_text_contents() == ["FAVANO", "FedBuff"]
        expect(window.locator("#curves .title").first).to_have_text("bits sent, up and down")
        expect(window.get_by_label("Differences against")).to_have_value("FedAvg")
        expect(window.get_by_label("Differences against")).to_be_focused()
        assert (
            window.locator("#final th[data-column=difference]")
            .inner_text()
            .startswith("against FedAvg")
        )
        assert seen.complaints == []
        host = address.split("/")[2]
        assert {url.split("/")[2] for url in seen.requests} == {host}
    expect(window.locator("#live")).to_have_text(
        "The runs have ended, or are out of reach. Their report: there/report.html",
        timeout=PATIENCE,
    )
