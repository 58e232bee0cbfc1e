"""The `lockstep` command: one file a command; heavy imports only inside the command that needs them."""


def main() -> None:
    """Entry point of the console script."""
    import os
    import signal

    # threads that spin while they wait for each other take the processor from one another on a busy machine
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as ctrl-C: a command is told, and leaves in order
    from .app import run

    run()
