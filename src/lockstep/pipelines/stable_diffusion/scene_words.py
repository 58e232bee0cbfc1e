"""Words that a sentence about things is read by: numbers, joints, colours, moods, and words that only ask."""

from __future__ import annotations

import re

from . import scene_languages as further
from .scene_places import MOST

NUMBERS = {
    **{word: number for number, words in further.NUMBERS.items() for word in words.split()},
    **{word: number for number, words in enumerate(
        (("two", "couple", "pair", "both", "twin", "twins"), ("three", "few", "some", "trio", "row"),
         ("four", "family"), ("five", "many", "several", "lots", "lot", "group", "bunch", "herd", "flock", "pack",
         "swarm", "crowd", "gang", "handful", "plenty", "tons"), ("six",), ("seven",), ("eight",), ("nine", "dozen")),
        start=2)
       for word in words},
    **{str(number): min(number, MOST) for number in range(2, 100)},
    **dict.fromkeys(("ten", "eleven", "twelve", "twenty", "hundred"), MOST),
}  # fmt: skip
MANY = 5
GROUPS = frozenset(("school", "pride", "murder", "team"))  # also a thing, or a word of its own, without "of"
VAGUE = frozenset(
    (
        "couple", "pair", "both", "few", "some", "trio", "many", "several", "lots", "lot", "dozen", "twin", "twins",
        "group", "bunch", "herd", "flock", "pack", "swarm", "crowd", "gang", "handful", "plenty", "tons", "family",
        "row", "paar",
    )
)  # fmt: skip
ARTICLES = further.ARTICLES | frozenset(
    ("a", "an", "the", "one", "another", "his", "her", "its", "their", "my", "our", "your", "this", "that's", "1")
)
ONE = frozenset(("a", "an", "one", "1", "ein", "eine", "einen", "einem", "un", "une", "una", "uno", "um", "uma"))
JOINTS = further.JOINTS | frozenset(
    (
        "and", "&", "+", ",", "with", "plus", "on", "in", "by", "over", "above", "under", "below", "near", "beside",
        "inside", "beneath", "underneath", "upon", "behind", "next", "between", "/", "vs", "versus", "or", "chasing",
        "holding", "eating", "playing", "catching", "riding", "hugging", "kissing",
        "carrying", "watching", "driving", "meets", "meeting",
        "fighting", "biting", "drinking", "reading", "pulling", "pushing", "kicking", "throwing", "climbing", "beside",
        "then", ";", ".",
    )
)  # fmt: skip
WITH = further.WITH | {"with"}
OF = further.OF | {"of"}
ABOUT_IT = frozenset(("that", "which", "who", "is", "are", "looks"))  # what follows says something of the thing before
OVER = ("on top of", "on", "above", "over", "riding", "upon", *further.OVER)
UNDER = ("under", "below", "beneath", "underneath", *further.UNDER)
WITHIN = ("in", "inside", "dans", "en", "em", "nel", "nella")
RIGHT_OF = ("to the right of", "right of")
WEARING = frozenset(("wearing", "wears"))
WORN = frozenset(
    (
        "crown", "hat", "top hat", "cap", "graduation cap", "sunglasses", "glasses", "eyeglasses", "tears", "heart",
        "scarf", "helmet", "bow tie", "tie", "beard", "ribbon",
    )
)  # fmt: skip
# What heads were drawn with, and the model's words for it.
SMALL = frozenset(
    ("tiny", "small", "little", "mini", "teeny", "smaller", "smallest", "miniature", "wee", *further.SMALL)
)
LARGE = frozenset(
    (
        "big", "large", "huge", "giant", "enormous", "gigantic", "massive", "bigger", "biggest", "larger", "largest",
        *further.LARGE,
    )
)  # fmt: skip
# Moods that were drawn; other adjectives than these and colours change nothing in a picture of one thing.
# Words that stand for a face of any mood, and what says the mood in other words than a face's name does.
FACES = further.FACES | {"face", "smiley", "emoji", "emoticon", "smilie", "somebody", "someone"}
FACE_MOODS = {
    **{word: mood for mood, words in further.MOODS.items() for word in words.split()},
    **dict.fromkeys(("cry", "cries", "weeps", "tears", "sobs", "bawling"), "crying"),
    **dict.fromkeys(("laughs", "laugh"), "laughing"),
    **dict.fromkeys(("sleepy", "sleeps", "tired", "asleep"), "sleeping"),
    **dict.fromkeys(("surprised", "amazed", "astonished"), "shocked"),
    **dict.fromkeys(("winks", "wink"), "winking"),
    **dict.fromkeys(("screams", "scream"), "screaming"),
}
# Words that ask, and say nothing of the picture.
ASKING = further.ASKING | frozenset(
    (
        "something", "anything", "somebody", "someone", "need", "wish", "have", "get", "i'd", "we", "thanks", "thank",
        "how", "what", "about", "does", "do", "look", "ok", "hey", "pic", "sketch", "illustration", "cartoon", "for",
        "as", "let", "it", "some", "want", "wants", "really", "dear", "kindly", "no", "not", "without", "but", "from",
        "draw", "paint", "make", "show", "give", "create", "generate", "me", "us", "please", "i", "want", "would",
        "like", "to", "see", "can", "could", "you", "hi", "hello", "just", "picture", "image", "photo", "drawing",
        "icon", "emoji", "of", "there", "is", "are", "next", "together", "side", "left", "right", "top", "front",
        "looking", "at", "sitting", "standing", "flying",
    )
)  # fmt: skip
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "gray", "black", "white", "turquoise")
FURTHER_COLOURS = {
    "red": "crimson scarlet maroon ruby",
    "yellow": "golden gold",
    "green": "lime emerald olive",
    "blue": "navy azure cobalt",
    "purple": "violet lilac lavender indigo",
    "pink": "magenta fuchsia rosy",
    "brown": "tan chestnut",
    "gray": "grey silver",
    "turquoise": "teal cyan aqua aquamarine",
}
COLOUR_WORDS = {
    **further.COLOURS,
    **{word: name for name, words in FURTHER_COLOURS.items() for word in words.split()},
    **{name: name for name in COLOURS},
}
ANY_COLOUR = "|".join(sorted(COLOUR_WORDS, key=len, reverse=True))
AT_GROUND = r"(?:(?:on|with|in front of|against|in|auf|vor|mit|sur|avec|sobre|en|con|su|em|num|com|à)\s+)"
ANY_ARTICLE = r"(?:(?:an?|the|une?|einem|una?|uno|um|le|el|lo)\s+)"
BACKGROUND = re.compile(
    rf"(?:^|[,\s]+){AT_GROUND}?{ANY_ARTICLE}?(?:(?:plain|solid|light|dark|bright|pale)\s+)*({ANY_COLOUR})"
    rf"\s+(?:background|backdrop|bg|hintergrund)\b|\s+on\s+({'|'.join((*COLOURS, 'grey'))})\s*[.!?]*$"
    rf"|(?:^|[,\s]+){AT_GROUND}?{ANY_ARTICLE}?(?:fond|fondo|sfondo|fundo|background|hintergrund)\s*:?\s+"
    rf"(?:in\s+)?({ANY_COLOUR})\b"
)
STYLE_WORDS = frozenset(
    (
        "style", "stil", "estilo", "stile", "background", "backdrop", "bg", "hintergrund", "fond", "fondo", "sfondo",
        "fundo", "render", "rendering", "rendered",
    )
)  # fmt: skip
ANY_STYLE = r"\b(3d|flat|noto|fluent|outline|blob|firefox)\b"
NAMED_STYLE = r"\b(?:style|stil|estilo|stile)\b"
STYLES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:^|[,\s]+)(?:(?:in|im|en|em|nello)\s+)?(?:an?\s+|the\s+)?{ANY_STYLE}[\s-]+{NAMED_STYLE}(?:\s+of\b)?",
        rf"(?:^|[,\s]+)(?:(?:in|im|en|em|nello)\s+)?(?:an?\s+|the\s+)?{NAMED_STYLE}\s+(?:of\s+)?{ANY_STYLE}",
        rf"(?:,|[,\s]+(?:in|en|em))\s+(?:an?\s+|the\s+)?{ANY_STYLE}\s*(?=[,.!?]|$)",
        rf"(?:^|[,\s]+){ANY_STYLE}",
        r"(?:^|[,\s]+)(?:in\s+)?(?:an?\s+|the\s+)?\b(?!the\b|my\b|this\b|that\b)([^\W_]+)\s+style\b(?!\s+of\b)",
    )
)
PLACES = re.compile(
    r"\b(?:(?:in|on|at)\s+the\s+)?(?:(top|upper|bottom|lower)(?:[\s-]+(left|right))?|(left|right))\b"
    r"(?:\s+(?:hand\s+)?(?:side|corner|half|edge))?(?!\s+of\b)\s*[.!?]*$"
)
