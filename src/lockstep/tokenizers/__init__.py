"""Tokenizers: text -> token ids, on the `tokenizers` library, from the files that transformers reads and writes."""

from .clip import CLIPTokenizer
from .qwen2 import Qwen2Tokenizer
from .t5 import T5Tokenizer
from .tokenizer import Tokenizer, Tokens

__all__ = ["CLIPTokenizer", "Qwen2Tokenizer", "T5Tokenizer", "Tokenizer", "Tokens"]
