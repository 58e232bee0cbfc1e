"""Rules of the house that a linter does not know, one file each; `python -m tools.quality` checks all of them."""
