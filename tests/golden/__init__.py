"""What favano does, recorded: what later releases go on doing, or change on purpose.

Each kind of record is a module of this package that has `CASES` by name, `record(case)`, the
relative `TOLERANCE` of its numbers, and `QUICK`, the cases that every run of the suite compares;
the others are slow tests. A kind uses `import favano` and the command line alone, so that it does
not move with what is inside. `python -m tests.golden.write` makes the records anew and shows what
has changed.

The records here were made on the way to 0.3.1. Before they decide anything they are made anew with
the sources of 0.3.1 first on PYTHONPATH; then the line about them in `conftest.py` goes, and so do
`tests/digests`.
"""

KINDS = (
    *("schedules", "weights", "accepted_keys", "texts"),
    *("trained_models", "data_sets", "old_folders", "killed_runs", "federations", "edited_folders"),
)
