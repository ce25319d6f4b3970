from .client import Client as Client
from .client import answer as answer
from .client import client_app as client_app
