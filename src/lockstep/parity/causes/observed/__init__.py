"""What both live sides compute at the same place, seen step by step and put side by side.

graph.py        the steps of one module's code (or of a pipeline between its models) and the values between them
frames.py       which code of the one side stands beside which of the other
matching.py     which values both sides have, and the smallest places where they begin to differ
sameness.py     when two tensors hold the same numbers
smallest.py     the one value inside of such a place with which put right all of it is right
anchors.py      places that both have without a name: where they use the same weight
used_weights.py the weights of another module
own_values.py   a value of the candidate's own that belongs in the place of another
variables.py    what the candidate's code calls a value
functions.py    what is done in the other order, or by another activation, however it is written
arrangement.py  the same numbers with other axes
expressions.py  values in words, down to what both have
settings.py     what a step is told beside its tensors
layers.py       another layer, or one without its bias
norms.py        a norm that is the reference's but for one thing
layouts.py      expressions that are the same but for how axes are read
attentions.py   an attention as what goes into it, written as one call or as several
rotations.py    by how much query and key are turned, whatever form the tables have
places.py       the value that is told
lines.py        the line of the candidate that is told
words.py        such a place as a name and a sentence
transplant.py   the candidate's steps done in the reference instead: the proof
difference.py   all of it for one comparison
"""
