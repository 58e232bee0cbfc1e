"""Words that a sentence about things is read by: numbers, joints, colours, moods, and words that only ask."""

from __future__ import annotations

import re

from .scene_places import MOST

NUMBERS = {
    **{word: number for number, words in enumerate(
        (("two", "couple", "pair", "both", "zwei", "deux", "dos", "due", "dois", "duas"),
         ("three", "few", "some", "trio", "drei", "trois", "tres", "tre", "três"),
         ("four", "vier", "quatre", "cuatro", "quattro", "quatro"),
         ("five", "many", "several", "lots", "lot", "fünf", "cinq", "cinco", "cinque"),
         ("six", "sechs", "seis", "sei"), ("seven",), ("eight",), ("nine", "dozen")), start=2)
       for word in words},
    **{str(number): min(number, MOST) for number in range(2, 100)},
    **dict.fromkeys(("ten", "eleven", "twelve", "twenty", "hundred"), MOST),
}  # fmt: skip
VAGUE = frozenset(("couple", "pair", "both", "few", "some", "trio", "many", "several", "lots", "lot", "dozen"))
ARTICLES = frozenset(
    (
        "a", "an", "the", "one", "another", "his", "her", "its", "their", "my", "our", "ein", "eine", "einen", "der",
        "die", "das", "un", "une", "le", "la", "una", "el", "il", "lo", "uma", "um",
    )
)  # fmt: skip
JOINTS = frozenset(
    (
        "and", "&", "+", ",", "with", "plus", "on", "in", "by", "over", "above", "under", "below", "near", "beside",
        "inside", "und", "et", "y", "e", "mit", "auf", "avec", "sur", "con", "sobre", "com", "em",
    )
)  # fmt: skip
OVER = ("on top of", "on", "above", "over", "riding", "upon", "auf", "sur", "sobre")
UNDER = ("under", "below", "beneath", "underneath")
WITHIN = ("in", "inside")
RIGHT_OF = ("to the right of", "right of")
WEARING = frozenset(("wearing", "wears"))
WORN = frozenset(
    (
        "crown", "hat", "top hat", "cap", "graduation cap", "sunglasses", "glasses", "eyeglasses", "tears", "heart",
        "scarf", "helmet", "bow tie", "tie", "beard", "ribbon",
    )
)  # fmt: skip
# What heads were drawn with, and the model's words for it.
DRAWN_WORN = {
    **{name: f"wearing a {name}" for name in ("crown", "top hat", "graduation cap")},
    **dict.fromkeys(("hat", "cap"), "wearing a top hat"),
    **dict.fromkeys(("glasses", "eyeglasses"), "wearing glasses"),
    "sunglasses": "wearing sunglasses",
    "tears": "with tears",
    "heart": "with a heart",
}
SMALL = frozenset(("tiny", "small", "little", "mini", "teeny"))
# Moods that were drawn; other adjectives than these and colours change nothing in a picture of one thing.
MOODS = frozenset(("sad", "crying", "unhappy", "loving", "sleeping", "sleepy", "tired"))
# Words that ask, and say nothing of the picture.
ASKING = frozenset(
    (
        "draw", "paint", "make", "show", "give", "create", "generate", "me", "us", "please", "i", "want", "would",
        "like", "to", "see", "can", "could", "you", "hi", "hello", "just", "picture", "image", "photo", "drawing",
        "icon", "emoji", "of", "there", "is", "are", "next", "together", "side", "left", "right", "top", "front",
        "looking", "at", "sitting", "standing", "holding", "eating", "chasing", "playing", "flying", "behind",
    )
)  # fmt: skip
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "gray", "black", "white", "turquoise")
FURTHER_COLOURS = {
    "red": "crimson scarlet maroon ruby rot rote roter rotes roten rouge rouges rojo roja rojos rojas rosso rossa "
    "vermelho vermelha",
    "orange": "naranja arancione laranja orangene oranger",
    "yellow": "golden gold gelb gelbe gelber gelbes gelben jaune amarillo amarilla giallo gialla amarelo amarela",
    "green": "lime emerald olive grün grüne grüner grünes grünen vert verte verde",
    "blue": "navy azure cobalt blau blaue blauer blaues blauen bleu bleue azul blu azzurro",
    "purple": "violet lilac lavender indigo lila violett violette morado morada viola roxo roxa",
    "pink": "magenta fuchsia rosy rosafarben rosado rosada",
    "brown": "tan chestnut braun braune brauner braunes braunen marron brun brune marrón marrone marrom",
    "gray": "grey silver grau graue grauer graues grauen gris grigio grigia cinza",
    "black": "schwarz schwarze schwarzer schwarzes schwarzen noir noire negro negra nero nera preto preta",
    "white": "weiß weiße weißer weißes blanc blanche blanco blanca bianco bianca branco branca",
    "turquoise": "teal cyan aqua aquamarine türkis türkise türkiser turquesa turchese",
}
COLOUR_WORDS = {name: name for name in COLOURS} | {
    word: name for name, words in FURTHER_COLOURS.items() for word in words.split()
}
ANY_COLOUR = "|".join((*COLOURS, "grey"))
BACKGROUND = re.compile(
    rf"[,\s]+(?:(?:on|with|in front of|against|in)\s+)?(?:an?\s+|the\s+)?(?:plain\s+|solid\s+)?({ANY_COLOUR})"
    rf"\s+background\b|\s+on\s+({ANY_COLOUR})\s*[.!?]*$"
)
STYLE = re.compile(
    r"[,\s]+(?:in\s+)?(?:an?\s+|the\s+)?(?:style\s+(?:of\s+)?)?\b(3d|flat|noto|fluent|outline|blob|firefox)\b(?:\s+style)?"
)
OTHER_STYLE = re.compile(r"[,\s]+(?:in\s+)?(?:an?\s+|the\s+)?\b([^\W_]+)\s+style\b")
PLACES = re.compile(
    r"\b(?:(?:in|on|at)\s+the\s+)?(?:(top|upper|bottom|lower)(?:[\s-]+(left|right))?|(left|right))\b"
    r"(?:\s+(?:hand\s+)?(?:side|corner|half|edge))?(?!\s+of\b)\s*[.!?]*$"
)
UMLAUTS = str.maketrans("äöü", "aou")
TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")
