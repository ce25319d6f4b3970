"""`python -m favano` is `favano`."""

from favano.cli import main

if __name__ == "__main__":
    main()
