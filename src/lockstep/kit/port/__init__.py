"""A reference's weights and modules against ours, while the port is being written.

matching.py   tensors of two layouts put together by their values: the same, transposed, permuted, split, joined, scaled
rules.py      those matches as rows of a weight map, proven on the tensors, and written as a file
missing.py    which modules of the reference the port does not have yet, in the order in which to build them
watching.py   again at each save
"""
