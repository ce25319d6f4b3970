from .check import check_metrics as check_metrics
from .evaluation import Evaluator as Evaluator
from .metric import Metric as Metric
from .metric import accuracy as accuracy
from .metric import as_metrics as as_metrics
from .metric import perplexity as perplexity
from .metric import recorded as recorded
