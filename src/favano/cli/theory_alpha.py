"""`favano theory alpha`: weights, coefficients and estimator variances."""

from __future__ import annotations

from favano import theory
from favano.cli.constants import print_setting, table_of
from favano.cli.flags import Config, Json, Values, spec_from
from favano.cli.shell import print_json, screen
from favano.studies.guarantees import RULES, alpha_document, make_case


def alpha_command(flags: Values, config: Config = None, json: Json = False) -> None:
    """Show the weights alpha, a_i and b_i as printed and corrected, and estimator variances."""
    case = make_case(spec_from(config, flags))
    if json:
        print_json(alpha_document(case))
        return
    laws = case.laws
    print_setting(case.spec)
    for rule, weight in zip(RULES, ("P(E > 0)", "E[X]"), strict=True):
        rows = {
            name: (
                law.p_positive if rule == "stochastic" else law.mean,
                *theory.coefficients(law, rule),
                *theory.coefficients(law, rule, "printed"),
                theory.estimator_variance(law, rule, mean=1.0, variance=0.0),
                theory.estimator_variance(law, rule, mean=0.0, variance=1.0),
            )
            for name, law in laws.items()
        }
        headings = ("", weight, "a", "b", "a print", "b print", "Var/mu^2", "Var/v")
        screen.print(table_of(f"{rule} rule", headings, rows))
