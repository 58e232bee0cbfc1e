"""Texts that tokenizers get wrong: generated from words, separators and code points of many kinds, seeded."""

import random

WORDS = [
    "a",
    "photo",
    "of",
    "an",
    "astronaut",
    "riding",
    "horse",
    "on",
    "mars",
    "can't",
    "it's",
    "we've",
    "I'll",
    "don't",
    "they're",
    "o'clock",
    "HELLO",
    "World",
    "ÀÉÎ",
    "naïve",
    "café",
    "ﬁne",
    "Straße",
    "İstanbul",
    "ǅ",
    "1234",
    "3.14",
    "50%",
    "e=mc²",
    "½",
    "①",
    "猫",
    "犬と猫",
    "高清",
    "안녕하세요",
    "مرحبا",
    "שלום",
    "привет",
    "नमस्ते",
    "ไทย",
    "🐱",
    "👩\u200d👩\u200d👧\u200d👦",
    "🏳️\u200d🌈",
    "👍🏽",
    "🇩🇪",
    "❤️",
    "<|startoftext|>",
    "<|endoftext|>",
    "<|ENDOFTEXT|>",
    "!",
    "!!!",
    "...",
    ",",
    ";",
    "(((masterpiece:1.2)))",
    "[a|b]",
    "<lora:x:1>",
    "__init__",
    "#tag",
    "@user",
    "http://x.y/z?q=1&r=2",
    "'S",
    "'T",
    "'re",
    "'LL",
    "’s",
    "“q”",
    "—",
    "–",
    "…",
    "\\n",
    "&amp;",
    "&lt;",
    "C++",
    "A.I.",
    "U.S.A.",
    "ſ",
    "K",
    "Ω",
    "ẞ",
]
COMBINING = ["e\u0301", "n\u0303", "a\u0300\u0316", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u202e"]
SEPARATORS = [
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\u00a0",
    "\u3000",
    "",
    "\u2028",
    "\x85",
    "\x0b",
    "\x0c",
    "\x00",
    "\x1f",
    "\u2009",
]
BY_HAND = [
    "", " ", "\n\n", "   a  ", "a" * 300, " ".join(["word"] * 200), "!" * 100, "\x00\x01\x02\x7f", "\ufffd",
    "\U0010ffff",
    "\u0300abc", "a<|endoftext|>b", "<|startoftext|><|endoftext|>", "IT'S WE'VE", "don''t", "''s", "0123456789",
    "\t\r\n",
]  # fmt: skip
SYLLABLES = [a + b + c for a in "bdgklmnrst" for b in "aeiou" for c in ("", "n", "r", "st")]
PLANES = [(0x20, 0x7F), (0, 0x300), (0x300, 0x3000), (0x3000, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000)]


def awkward_texts(count: int, seed: int = 0) -> list[str]:
    """`count` texts, those made by hand first."""
    draw = random.Random(seed)
    texts = list(BY_HAND)
    while len(texts) < count:
        length = draw.choice([1, 2, 3, 5, 8, 20, 200 if draw.random() < 0.05 else 10])
        if draw.random() < 0.25:
            texts.append("".join(chr(draw.randrange(*draw.choice(PLANES))) for _ in range(3 * length)))
        else:
            texts.append("".join(_word(draw) for _ in range(length)))
    return texts[:count]


def _word(draw: random.Random) -> str:
    word = draw.choice(COMBINING) if draw.random() < 0.05 else draw.choice(WORDS)
    return word + (draw.choice(SEPARATORS) if draw.random() < 0.4 else " ")


def plain_texts(count: int, seed: int = 0) -> list[str]:
    """Texts to learn a vocabulary from: real words, and a thousand made of syllables."""
    draw = random.Random(seed)
    words = [word for word in WORDS if word.isascii() and "<" not in word]
    made = ["".join(draw.choices(SYLLABLES, k=draw.randrange(1, 4))) for _ in range(1000)]
    return [
        " ".join(draw.choice(words) if draw.random() < 0.3 else draw.choice(made) for _ in range(8))
        for _ in range(count)
    ]


def assert_same_tokens(ours, theirs, texts, **options):
    """Two tokenizers give the same ids and masks."""
    got, want = ours(texts, **options), theirs(texts, **options)
    for index, text in enumerate(texts):
        assert got.input_ids[index] == want.input_ids[index], repr(text)
        assert got.attention_mask[index] == want.attention_mask[index], repr(text)
