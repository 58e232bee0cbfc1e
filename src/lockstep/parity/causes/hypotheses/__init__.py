"""What other implementations do differently, as edits of a live model.

layers.py     norms, activations, linear layers, convolutions   attention.py  masks, scales, heads
tensors.py    the arithmetic between layers                      layouts.py    order and precision of elements
reductions.py means and spreads over other axes                  axes.py       how axes are put and taken apart
ends.py       slices and padding                                 chains.py     steps moved, done twice or not at all
frames.py     several places of one module at once               catalogue.py  which of them to try where
"""
