"""`python -m favano` is `favano`."""

from favano.cli import program

if __name__ == "__main__":
    program()
