"""`favano theory steps`: the law of the number of local steps."""

from __future__ import annotations

from favano.cli.constants import print_setting, table_of
from favano.cli.flags import Config, Json, Values, spec_from
from favano.cli.shell import print_json, screen
from favano.specification.presets import resolve
from favano.studies.guarantees import speed_laws, steps_document


def steps_command(flags: Values, config: Config = None, json: Json = False) -> None:
    """Show the law of X = min(E, K), the local steps of a polled client at a contact."""
    spec = resolve(spec_from(config, flags))
    if json:
        print_json(steps_document(spec))
        return
    rows = {}
    for name, law in speed_laws(spec).items():
        values = (law.p_positive, law.mean, law.second_moment, law.mean_inverse, law.pmf[-1])
        rows[name] = [f"{value:.6f}" for value in values]
    headings = ("speed", "P(E > 0)", "E[X]", "E[X^2]", "E[1/X; X > 0]", "P(X = K)")
    print_setting(spec)
    screen.print(table_of("", headings, rows))
