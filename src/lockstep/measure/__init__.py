"""How fast a model is here, by every way to compute it that is installed, measured in turn in one run.

`subjects` says what is measured, `sides` are our own ways and `peers` those of others, `runs` takes them in turn,
`growth` measures one way at several sizes, `plot` draws either.
"""
