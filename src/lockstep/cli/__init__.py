"""The `lockstep` command: one file a command; heavy imports only inside the command that needs them."""


def main() -> None:
    """Entry point of the console script."""
    from .app import run

    run()
