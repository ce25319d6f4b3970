"""What was compared and what it shows, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from favano.report.metric_words import amount, gap, interval_words, level, stated
from favano.report.reported_result import ReportedResult
from favano.report.settings import NOT_SET, setting
from favano.report.table import CONFIDENCE, FEWEST, comparable, finished, over, paired
from favano.report.wording import counted, fixed, listed, significant

_PLAIN = "plain SGD"
_SYMBOLS = (
    ("clients", "n", "clients"),
    ("selected", "s", "contacted at a time"),
    ("local_steps", "K", "local steps at most"),
    ("local_epochs", "E", "local epochs at most"),
)
_TOO_FEW = "too few seeds to say how sure"
_ALIKE, _WHOLE = 0.05, 10  # costs that are as good as equal, and those without decimals
_NAMED = 6  # methods named in a title, at most


def title_of(results: Sequence[ReportedResult]) -> str:
    """A title for results: the methods and the data."""
    names = list(dict.fromkeys(each.title.partition(" (")[0] for each in results))
    methods = listed(names) if len(names) <= _NAMED else f"{len(names)} methods"
    return f"{methods} on {_either(results, 'dataset')}"


def setting_sentence(results: Sequence[ReportedResult]) -> str:
    """What was compared: methods, data, share and split, n, s, K, learning rate, time and seeds."""
    parts = [f"on {_share(results)}{_either(results, 'dataset')}"]
    if any("split" in result.keys for result in results):
        parts.append(f"split {_either(results, 'split')}")
    for key, symbol, words in _SYMBOLS:
        if any(key in result.keys for result in results):
            parts.append(f"{symbol} = {_either(results, key)} {words}")
    if any("learning_rate" in result.keys for result in results):
        parts.append(f"learning rate {_either(results, 'learning_rate')}")
    if any(result.horizon is not None for result in results):
        parts.append(f"up to time {_either(results, 'horizon')}")
    if counts := sorted({len(result.final_runs) for result in results if result.final_runs}):
        parts.append(" or ".join(map(str, counts)) + (" seed" if counts == [1] else " seeds"))
    titles = dict.fromkeys(result.title for result in results)
    trained = optimisers(results)
    return (
        f"{listed(list(titles))} {', '.join(parts)}.{f' Optimiser: {trained}.' if trained else ''}"
    )


def optimisers(results: Sequence[ReportedResult]) -> str:
    """The optimisers in words; empty if all steps are those of plain SGD."""
    users: dict[str, list[str]] = {}
    for result in results:
        users.setdefault(result.summary.optimiser or _PLAIN, []).append(result.title)
    if set(users) == {_PLAIN}:
        return ""
    if len(users) == 1:
        return next(iter(users))
    return "; ".join(f"{listed(who)}: {words}" for words, who in users.items())


def _share(results: Sequence[ReportedResult]) -> str:
    """The share of the data in words; empty if all of them are used."""
    shares = dict.fromkeys(result.keys.get("data_fraction", 1.0) for result in results)
    if set(shares) == {1.0}:
        return ""
    return " or ".join(f"{100 * float(str(share)):g} %" for share in shares) + " of "


def _either(results: Sequence[ReportedResult], key: str) -> str:
    values = dict.fromkeys(setting(result, key) for result in results)
    known = [value for value in values if value != NOT_SET]
    return " or ".join(known) or "an unnamed one"


def sentence(results: Sequence[ReportedResult]) -> str:
    """What the comparison shows.

    Only complete results are ranked, by the mean of the leading metric over the seeds they share.
    The first FAVANO is compared with the best other result; without FAVANO, the best result with
    the second. How sure the difference is says its t interval over seeds, from five seeds on. The
    cost is what the first of the two spent until the horizon, beside the other.
    """
    ranked = [result for result in results if _flaw(result) is None]
    left_out = _left_out(results, bool(ranked))
    if not ranked:
        return left_out
    if not comparable(ranked):
        return f"The results differ in data, fleet or horizon and are not ranked.{left_out}"
    common = set.intersection(*(set(finished(result)) for result in ranked))
    metric, scores = ranked[0].leading, {result.name: _score(result, common) for result in ranked}
    sign = -1 if metric.best == "high" else 1
    order = sorted(ranked, key=lambda result: sign * scores[result.name])
    subject = next((result for result in ranked if result.algorithm == "favano"), order[0])
    after = f"After {significant(_end(ranked))} units of time"
    reached = f"{subject.title} reaches {stated(metric, scores[subject.name])}"
    if len(ranked) == 1:
        return f"{after} {reached} ({counted(len(subject.final_runs), 'seed')}).{left_out}"
    rival = next(result for result in order if result is not subject)
    mine, theirs = scores[subject.name], scores[rival.name]
    cost = _cost(subject, rival, common)
    side = f"{gap(metric, mine - theirs)} {'above' if mine > theirs else 'below'}"
    evidence = _evidence(subject, rival, common, mine - theirs)
    if level(metric, mine, theirs):
        tenth = " to a tenth of a point" if metric.unit == "%" else ""
        verb = f"level with {rival.title}{tenth}"
    elif metric.better(mine, theirs):
        second = ", the next best" if len(ranked) > 2 else ""
        verb = f"{side} {rival.title}{second}"
    else:
        best = f"{rival.title} reaches {stated(metric, theirs)}"
        best += f", the {metric.best}est {metric.name}" if len(ranked) > 2 else ""
        own = f"{subject.title} {amount(metric, mine)}, {side}{cost}"
        return f"{after} {best}; {own} ({evidence}).{left_out}"
    return f"{after} {reached}, {verb}{cost} ({evidence}).{left_out}"


def _score(result: ReportedResult, common: set[int]) -> float:
    """Mean over the common seeds, or over all its seeds if there are none."""
    name = result.leading.name
    return over(
        run.value(name) for run in result.final_runs if not common or run.seed in common
    ).mean


def _end(ranked: Sequence[ReportedResult]) -> float:
    """The horizon, or the latest time of any run if there is none."""
    asked = ranked[0].horizon
    return (
        asked if asked is not None else max(run.time for each in ranked for run in each.final_runs)
    )


def _evidence(
    subject: ReportedResult, rival: ReportedResult, common: set[int], difference: float
) -> str:
    if not common:
        return "means over different seeds"
    seeds = counted(len(common), "seed")
    if len(common) == 1:
        return f"{seeds}, {_TOO_FEW}"
    ours, theirs, name = finished(subject), finished(rival), subject.leading.name
    gaps = [ours[seed].value(name) - theirs[seed].value(name) for seed in common]
    lower, pair = difference < 0, paired(subject, rival)
    same = sum(gap < 0 if lower else gap > 0 for gap in gaps)
    words = f"{seeds}, {'lower' if lower else 'higher'} in {same} of {len(common)}"
    ends = None if pair is None else pair.interval
    if pair is None or ends is None:
        return f"{words}, {_TOO_FEW}" if len(common) < FEWEST else words
    words += f"; {CONFIDENCE:.0%} interval of the difference".replace("%", " %")
    words += f" {interval_words(subject.leading, pair)}"
    return words if ends[0] > 0 or ends[1] < 0 else f"{words}, which includes 0"


def _cost(subject: ReportedResult, rival: ReportedResult, common: set[int]) -> str:
    """Local steps and bits until the horizon as multiples of the rival's, over common seeds."""
    mine, theirs = finished(subject), finished(rival)
    ours, others = ([runs[seed] for seed in common] for runs in (mine, theirs))
    spent = {
        "local steps": [sum(run.local_steps for run in runs) for runs in (ours, others)],
        "bits": [sum(run.bits_up + run.bits_down for run in runs) for runs in (ours, others)],
    }
    ratios = {what: own / other for what, (own, other) in spent.items() if own and other}
    alike = [what for what, ratio in ratios.items() if abs(ratio - 1) < _ALIKE]
    words = [_times(what, ratio) for what, ratio in ratios.items() if what not in alike]
    words += [f"as many {listed(alike)}"] if alike else []
    return f", with {listed(words)}" if words else ""


def _times(what: str, ratio: float) -> str:
    """A multiple in words.

    >>> _times("bits", 16.2), _times("bits", 1.53), _times("bits", 0.124)
    ('16 times the bits', '1.5 times the bits', '0.12 times the bits')
    """
    return f"{fixed(ratio, 0) if ratio >= _WHOLE else f'{ratio:.2g}'} times the {what}"


def _flaw(result: ReportedResult) -> str | None:
    """Why a result cannot be ranked."""
    if result.status != "complete":
        return result.status
    name = result.leading.name
    finite = all(math.isfinite(run.value(name)) for run in result.final_runs)
    return None if finite else f"without a finite {name}"


def _left_out(results: Sequence[ReportedResult], others: bool) -> str:
    """Name the results that are not ranked, and why."""
    names = [f"{result.title} ({flaw})" for result in results if (flaw := _flaw(result))]
    if not names:
        return ""
    return f" Not ranked: {listed(names)}." if others else f"Nothing to rank: {listed(names)}."
