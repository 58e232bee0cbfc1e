"""A new model, pipeline, scheduler or guider from templates: files, tests, a reference, a page; names registered.

names.py         the names that follow from the one that is given
homes.py         where the files lie: in Lockstep's own repository, or in a package of one's own
filling.py       a template with its words filled in and its imports in order
taken.py         names that mean something already
registering.py   the lines by which names are found: public names in the house, entry points in a package
writing.py       `write_new`: all of it, or nothing
"""

from .homes import Home, house_from, package_at
from .names import FamilyNames
from .writing import KINDS, WORKFLOWS, Written, write_new

__all__ = ["KINDS", "WORKFLOWS", "FamilyNames", "Home", "Written", "house_from", "package_at", "write_new"]
