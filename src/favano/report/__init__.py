"""Tables, sentences and one HTML page from result folders. Reads files, computes nothing new."""

from favano.report.collect import collect
from favano.report.page import write_page
from favano.report.result import Result, Specification, Status, read_result
from favano.report.settings import Setting, by_setting
from favano.report.table import Line, Paired, Spread, final_lines, paired
from favano.report.terminal import final_table
from favano.report.verdict import sentence, setting_sentence, title_of

__all__ = [
    "Line",
    "Paired",
    "Result",
    "Setting",
    "Specification",
    "Spread",
    "Status",
    "by_setting",
    "collect",
    "final_lines",
    "final_table",
    "paired",
    "read_result",
    "sentence",
    "setting_sentence",
    "title_of",
    "write_page",
]
