"""Many rows over many workers: the same files as one process makes, each exactly once, whatever dies on the way.

rows.py       what a person asks for: lines, tables, JSON
plan.py       every row with the key that names its file; kept in the folder, so that a resumed run cannot drift
making.py     the worker's side: a pipeline, and one row after the other
workers.py    what a driver knows of workers, whoever runs them
local.py      workers as processes of this machine
ray.py        workers as actors of a Ray cluster
stages.py     a row in three parts, each with its own models: texts, denoising, decoding
ray_stages.py workers as chains of such parts, on different nodes
driving.py    hands rows out, takes them back from the dead, keeps the ledger
verifying.py  whether a folder holds what its plan says
packing.py    the files as shards of tar, for training
"""
