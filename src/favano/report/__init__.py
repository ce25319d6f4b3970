"""Tables, sentences and one HTML page of results. Computes nothing new."""

from favano.report.findings import sentence as sentence
from favano.report.findings import setting_sentence as setting_sentence
from favano.report.findings import title_of as title_of
from favano.report.page import write_page as write_page
from favano.report.remarks import remarks_on as remarks_on
from favano.report.settings import by_setting as by_setting
from favano.report.settings import disambiguated as disambiguated
from favano.report.table import comparable as comparable
from favano.report.table import paired as paired
from favano.report.targets import target_of as target_of
from favano.report.terminal import final_table as final_table
from favano.report.terminal import target_table as target_table
