"""The public names that may be `Any`, each with its reason."""

EXCEPTIONS: dict[str, str] = {}
