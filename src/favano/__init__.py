"""Asynchronous federated learning: FAVANO, its baselines, and a simulator in virtual time.

>>> import favano
>>> favano.FedBuff(buffer=10).buffer
10
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from favano.errors import BadInput as BadInput
    from favano.errors import NonFiniteUpdate as NonFiniteUpdate
    from favano.methods.aafl import Aafl as Aafl
    from favano.methods.arrays import column as column
    from favano.methods.arrays import with_rows as with_rows
    from favano.methods.arrays import zeros as zeros
    from favano.methods.asofed import AsoFed as AsoFed
    from favano.methods.asyncfeded import AsyncFedED as AsyncFedED
    from favano.methods.asyncsgd import AsyncSGD as AsyncSGD
    from favano.methods.asyncsgd_adaptive import AsyncSGDAdaptive as AsyncSGDAdaptive
    from favano.methods.favano import Favano as Favano
    from favano.methods.favano_delta import FavanoDelta as FavanoDelta
    from favano.methods.fedasync import FedAsync as FedAsync
    from favano.methods.fedavg import FedAvg as FedAvg
    from favano.methods.fedbuff import FedBuff as FedBuff
    from favano.methods.fedfix import FedFix as FedFix
    from favano.methods.fednova import FedNova as FedNova
    from favano.methods.fedprox import FedProx as FedProx
    from favano.methods.method import ClientUpdates as ClientUpdates
    from favano.methods.method import Method as Method
    from favano.methods.method import ModelState as ModelState
    from favano.methods.quafl import Quafl as Quafl
    from favano.methods.scaffold import Scaffold as Scaffold
    from favano.metrics.metric import Metric as Metric
    from favano.metrics.metric import accuracy as accuracy
    from favano.metrics.metric import perplexity as perplexity
    from favano.options import option as option
    from favano.policies.policy import Action as Action
    from favano.policies.policy import Dispatch as Dispatch
    from favano.policies.policy import Policy as Policy
    from favano.policies.policy import ReceivedUpdate as ReceivedUpdate
    from favano.policies.selection import Candidates as Candidates
    from favano.policies.selection import Selection as Selection
    from favano.policies.selection import Selector as Selector
    from favano.policies.selection_rules import BySamples as BySamples
    from favano.policies.selection_rules import LeastRecent as LeastRecent
    from favano.policies.selection_rules import Uniform as Uniform
    from favano.policies.selection_rules import Weighted as Weighted
    from favano.policies.value_rules import Oort as Oort
    from favano.policies.value_rules import PowerOfChoice as PowerOfChoice
    from favano.results import Comparison as Comparison
    from favano.results import Interrupted as Interrupted
    from favano.results import Result as Result
    from favano.results.adapter_file import load_adapter as load_adapter
    from favano.results.reading import load as load
    from favano.results.tuning import Tuning as Tuning
    from favano.run.api import compare as compare
    from favano.run.api import plan as plan
    from favano.run.api import simulate as simulate
    from favano.run.early_stopping import EarlyStopping as EarlyStopping
    from favano.run.observer import STOP as STOP
    from favano.run.observer import Evaluation as Evaluation
    from favano.run.problem import Problem as Problem
    from favano.run.verification import Verdict as Verdict
    from favano.run.verification import verify as verify
    from favano.specification.parts import Fleet as Fleet
    from favano.studies.tune import tune as tune
    from favano.transforms.adagrad import adagrad as adagrad
    from favano.transforms.adam import adam as adam
    from favano.transforms.clip import clip as clip
    from favano.transforms.median import median as median
    from favano.transforms.momentum import momentum as momentum
    from favano.transforms.transform import ServerTransform as ServerTransform
    from favano.transforms.trimmed_mean import trimmed_mean as trimmed_mean
    from favano.transforms.yogi import yogi as yogi
    from favano.types import Stack as Stack
    from favano.types import Vector as Vector

__version__ = "0.4.0.dev0"
"""The version of the package."""

_HOME = {
    "Action": "policies.policy",
    "BadInput": "errors",
    "BySamples": "policies.selection_rules",
    "Candidates": "policies.selection",
    "ClientUpdates": "methods.method",
    "Comparison": "results.result",
    "Dispatch": "policies.policy",
    "EarlyStopping": "run.early_stopping",
    "Evaluation": "run.observer",
    "Fleet": "specification.parts",
    "Interrupted": "results.result",
    "LeastRecent": "policies.selection_rules",
    "Method": "methods.method",
    "Metric": "metrics.metric",
    "ModelState": "methods.method",
    "NonFiniteUpdate": "errors",
    "Oort": "policies.value_rules",
    "Policy": "policies.policy",
    "PowerOfChoice": "policies.value_rules",
    "Problem": "run.problem",
    "ReceivedUpdate": "policies.policy",
    "Result": "results.result",
    "STOP": "run.observer",
    "Selection": "policies.selection",
    "Selector": "policies.selection",
    "ServerTransform": "transforms.transform",
    "Stack": "types",
    "Tuning": "results.tuning",
    "Uniform": "policies.selection_rules",
    "Vector": "types",
    "Verdict": "run.verification",
    "Weighted": "policies.selection_rules",
    "accuracy": "metrics.metric",
    "adagrad": "transforms.adagrad",
    "adam": "transforms.adam",
    "clip": "transforms.clip",
    "column": "methods.arrays",
    "compare": "run.api",
    "load": "results.reading",
    "load_adapter": "results.adapter_file",
    "median": "transforms.median",
    "momentum": "transforms.momentum",
    "option": "options",
    "perplexity": "metrics.metric",
    "plan": "run.api",
    "simulate": "run.api",
    "trimmed_mean": "transforms.trimmed_mean",
    "tune": "studies.tune",
    "verify": "run.verification",
    "with_rows": "methods.arrays",
    "yogi": "transforms.yogi",
    "zeros": "methods.arrays",
}
__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is asked for: `import favano` itself stays light.

    The class of every method is there, too: `favano.FedBuff`.
    """
    from importlib import import_module

    if name in _HOME:
        module = import_module(f"favano.{_HOME[name]}")
        return getattr(module, name)
    if name[:1].isupper():
        from favano.methods import our_methods

        for method in our_methods().values():
            if method.__name__ == name:
                return method
    raise AttributeError(f"module 'favano' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names, the methods included."""
    from favano.methods import our_methods

    return sorted([*__all__, *(method.__name__ for method in our_methods().values())])
