"""The integration kit: a new model, pipeline, scheduler or guider, with its proof built in.

new/         files from templates, in the house or in a package of one's own; names registered
templates/   those files; `${name}` and a few more words are filled in
checks/      the checklist of an integration: findings with file, line and remedy
port/        a reference's weights and modules against ours: rules of a weight map, what is still missing
stages.py    encode, decode, denoise of two pipelines, in that order
pitfalls.py  the eighteen mistakes that ports make most often, and by what each of them shows itself
testing/     mixins that the tests of models and pipelines compose
"""
