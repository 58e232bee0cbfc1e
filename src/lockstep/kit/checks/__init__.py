"""The checklist of an integration as checks, each finding with file, line and remedy.

finding.py      what a check finds
source.py       a family's files as trees, and where their classes and functions are
reading.py      rules that the text of the files tells: layers, draws, state, processors
registered.py   rules of the surroundings: names, tests, page, the saved proof
declared.py     blocks read only what they declare
running.py      rules that a run tells, by the mixins of the family's own tests
checklist.py    `check_family`: all of them
"""
