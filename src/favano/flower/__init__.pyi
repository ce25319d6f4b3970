from .client import Client as Client
from .client import answer as answer
from .client import client_app as client_app
from .memory import FileStore as FileStore
from .node import join as join
