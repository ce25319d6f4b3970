"""`favano plan`: the schedule, without training."""

from __future__ import annotations

from rich.table import Table

from favano.cli.flags import Config, DataDir, Json, Out, Values, spec_with_data
from favano.cli.shell import notes, print_json, say, screen
from favano.planning.client_weights import MOST
from favano.planning.comparison import without_exact_weights
from favano.planning.fleet import needs_cost
from favano.planning.plan import Plan
from favano.planning.plan_table import PlanTable, plan_sentences, plan_tables
from favano.planning.planned import bind_method, plan_seed
from favano.report.wording import significant
from favano.results import check_writable
from favano.run.data import load_data
from favano.run.progress import duration
from favano.schedule import expected_jobs
from favano.specification.presets import resolve
from favano.specification.spec import required

_MANY, _TOO_MANY = 200_000, 1e10  # jobs that are planned without a word, and refused
_SECONDS, _EACH = 1e-5, 1e-8  # that a job takes, about, and more for each client that is weighed


def plan_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Plan the schedule: who is contacted when, after how many steps, with what weight."""
    spec = resolve(spec_with_data(config, flags, data_dir))
    if out:
        check_writable(out)
    traits = load_data(spec.problem, data_dir).traits if spec.counts_samples else None
    cost = None
    if needs_cost(spec):  # which takes PyTorch and the data
        from favano.run.job_cost import named_cost

        with notes.status("counting the operations of a step"):
            cost = named_cost(spec, data_dir)
    method = bind_method(spec, spec.run.seed, traits, cost)
    jobs = expected_jobs(method.run_policy, method.context.fleet, required(spec.run.horizon))
    if _MANY < jobs < _TOO_MANY:
        clients = required(spec.fleet.clients)
        weighed = clients if json or traits is not None or clients <= MOST else 0
        seconds = duration(jobs * (_SECONDS + weighed * _EACH))
        long = f"planning about {significant(jobs)} jobs takes about {seconds}"
        say(f"{long}; Ctrl-C ends it, a smaller --horizon is faster")
    with notes.status("planning"):
        plan = Plan(plan_seed(spec, spec.run.seed, traits, cost))
        document = plan.document if json else None
        _ = plan.audit
    for words in without_exact_weights([spec]):
        say(words)
    if out:
        plan.save(out)
    if document is not None:
        print_json(document)
        return
    for table in plan_tables(plan):
        screen.print(_on_screen(table))
    for sentence in plan_sentences(plan):
        screen.print(sentence, soft_wrap=True)


def _on_screen(table: PlanTable) -> Table:
    shown = Table(title=table.title, title_justify="left")
    for place, heading in enumerate(table.headings):
        shown.add_column(heading, justify="left" if place == 0 else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    return shown
