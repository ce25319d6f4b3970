"""Policies: whom the server asks, when, and what it waits for. NumPy only."""

from favano.policies.adaptive import Adaptive as Adaptive
from favano.policies.buffered import Buffered as Buffered
from favano.policies.buffered import HandOut as HandOut
from favano.policies.buffered import Latency as Latency
from favano.policies.policy import VALUES as VALUES
from favano.policies.policy import Action as Action
from favano.policies.policy import Dispatch as Dispatch
from favano.policies.policy import Policy as Policy
from favano.policies.policy import ReceivedUpdate as ReceivedUpdate
from favano.policies.policy import Referee as Referee
from favano.policies.policy import StepsPerJob as StepsPerJob
from favano.policies.policy import policy_errors as policy_errors
from favano.policies.polling import Interruption as Interruption
from favano.policies.polling import Polling as Polling
from favano.policies.polling import StepCount as StepCount
from favano.policies.rounds import AtDeadline as AtDeadline
from favano.policies.rounds import Rounds as Rounds
from favano.policies.rounds import RoundTime as RoundTime
from favano.policies.selection import Candidates as Candidates
from favano.policies.selection import Selection as Selection
from favano.policies.selection import Selector as Selector
from favano.policies.selection_rules import BySamples as BySamples
from favano.policies.selection_rules import LeastRecent as LeastRecent
from favano.policies.selection_rules import Uniform as Uniform
from favano.policies.selection_rules import Weighted as Weighted
from favano.policies.windowed import Windowed as Windowed
