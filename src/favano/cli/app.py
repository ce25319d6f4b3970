"""The program with all its commands."""

from favano.cli.commands import make_app

app = make_app()
