"""Pipelines: each family is a folder of blocks and one short class that gives them a face."""
