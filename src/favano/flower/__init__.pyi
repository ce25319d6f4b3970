from .client import Client as Client
from .client import client_app as client_app
from .local_training import LocalTraining as LocalTraining
from .local_training import TrainingPart as TrainingPart
from .memory import FileStore as FileStore
from .node import join as join
from .share import Share as Share
from .strategy import AsyncStrategy as AsyncStrategy
