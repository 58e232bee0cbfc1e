"""CLIP's tokenizer beside transformers' one: the same tokens for 10,000 awkward texts, and files that go both ways."""

import json
import os
from pathlib import Path

import pytest
import transformers
from tokenizers_awkward import awkward_texts, plain_texts

