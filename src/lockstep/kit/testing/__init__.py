"""Tests that a family need not write: mixins for its models and pipelines, in the house and in packages of others.

closeness.py   how close is close; models whose every tensor says something
models.py      the mixins of a model's test
pipelines.py   the mixin of a pipeline's test, and the stages of a proof as one assertion
tiny.py        the parts of a tiny pipeline that every family shares
"""
