"""Laws of step times, fleets, and what they meet. NumPy only."""

from favano.timing.availability import Presence as Presence
from favano.timing.availability import parse_availability as parse_availability
from favano.timing.conditions import IDEAL as IDEAL
from favano.timing.conditions import Conditions as Conditions
from favano.timing.conditions import Energy as Energy
from favano.timing.conditions import Fault as Fault
from favano.timing.conditions import FaultKind as FaultKind
from favano.timing.conditions import JobCost as JobCost
from favano.timing.conditions import Links as Links
from favano.timing.conditions import WhenAway as WhenAway
from favano.timing.fleet import ClientSpeeds as ClientSpeeds
from favano.timing.fleet import Order as Order
from favano.timing.fleet import Rounding as Rounding
from favano.timing.fleet import client_speeds as client_speeds
from favano.timing.fleet import traced_fleet as traced_fleet
from favano.timing.fleet import two_speeds as two_speeds
from favano.timing.laws import Deterministic as Deterministic
from favano.timing.laws import Exponential as Exponential
from favano.timing.laws import Geometric as Geometric
from favano.timing.laws import HalfNormal as HalfNormal
from favano.timing.laws import LogNormal as LogNormal
from favano.timing.laws import StepLaw as StepLaw
from favano.timing.laws import Trace as Trace
from favano.timing.laws import parse_law as parse_law
from favano.timing.laws import read_trace as read_trace
