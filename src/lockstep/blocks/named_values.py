"""The values of the vocabulary as attributes; their types stand in the stub beside this file."""


class NamedValues:
    """What holds values of a run by name."""

    __slots__ = ()
