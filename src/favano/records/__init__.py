"""What every result file holds, for those that write it and those that read it.

No module here loads PyTorch.
"""

from favano.records.bound import BoundRow, bounds_from_csv, bounds_to_csv
from favano.records.complexities import Complexity, complexities_from_csv, complexities_to_csv
from favano.records.curves import CurvePoint, curves_from_csv, curves_to_csv
from favano.records.document import finite, to_json
from favano.records.folder import FILES, PARTICIPATION, as_path, read_file, write_together
from favano.records.history import History, Row, diverged, history_from_csv, history_to_csv, up_to
from favano.records.ledger import (
    Ending,
    Entry,
    Rates,
    entries_from_csv,
    entries_to_csv,
    rates_tried,
)
from favano.records.participation import (
    Participation,
    participation_from_json,
    participation_to_json,
)
from favano.records.run_file import RunFile, run_from_json, run_to_json
from favano.records.specification import specification_from_toml
from favano.records.summary import (
    AuditRecord,
    RunRecord,
    SpeedShare,
    Status,
    Summary,
    run_record,
    summary_from_json,
    summary_to_json,
    worst,
)

__all__ = [
    "FILES",
    "PARTICIPATION",
    "AuditRecord",
    "BoundRow",
    "Complexity",
    "CurvePoint",
    "Ending",
    "Entry",
    "History",
    "Participation",
    "Rates",
    "Row",
    "RunFile",
    "RunRecord",
    "SpeedShare",
    "Status",
    "Summary",
    "as_path",
    "bounds_from_csv",
    "bounds_to_csv",
    "complexities_from_csv",
    "complexities_to_csv",
    "curves_from_csv",
    "curves_to_csv",
    "diverged",
    "entries_from_csv",
    "entries_to_csv",
    "finite",
    "history_from_csv",
    "history_to_csv",
    "participation_from_json",
    "participation_to_json",
    "rates_tried",
    "read_file",
    "run_from_json",
    "run_record",
    "run_to_json",
    "specification_from_toml",
    "summary_from_json",
    "summary_to_json",
    "to_json",
    "up_to",
    "worst",
    "write_together",
]
