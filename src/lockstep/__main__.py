"""`python -m lockstep` is the command `lockstep`."""

from .cli import main

main()
