from .evaluation import Evaluator as Evaluator
from .evaluation import Score as Score
