"""The same result folders made by hand as for reports."""

from tests.report.conftest import compared as compared
from tests.report.conftest import write as write
