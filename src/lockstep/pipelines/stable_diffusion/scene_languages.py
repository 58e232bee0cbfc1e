"""Words of German, French, Spanish, Italian and Portuguese that a sentence about things is read by."""

from __future__ import annotations

from collections.abc import Iterator


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


NUMBERS = {
    2: "zwei deux dos due dois duas paar",
    3: "drei trois tres tre três einige quelques algunos algunas alcuni alcune alguns algumas",
    4: "vier quatre cuatro quattro quatro",
    5: "fünf cinq cinco cinque viele plusieurs muchos muchas molti molte muitos muitas",
    6: "sechs seis sei",
    7: "sieben sept siete sette sete",
    8: "acht huit ocho otto oito",
    9: "neun neuf nueve nove zehn dix diez dieci dez",
}
ARTICLES = words_of(
    "ein eine einen einem einer eines der die das den dem un une le la les una uno unos unas el il lo gli uma um "
    "mein meine meinen meinem meiner mon ma mes mi mis mio mia miei mie meu minha meus minhas"
)
JOINTS = words_of(
    "und et y e mit auf avec sur con sobre com em neben à côté lado accanto ao unter über hinter vor zwischen sous "
    "dessus dessous devant derrière entre debajo bajo encima sotto sopra dietro davanti sob embaixo debaixo cima junto "
    "bei dans no na nel nella sul sulla près cerca vicino perto oder ou mangia come mange isst"
)
OF = words_of("de di do da du d des del della von")
WITH = words_of("mit avec con com")
OVER = ("auf", "über", "sur", "dessus", "sobre", "encima", "su", "sopra", "sulla", "sul", "em cima")
UNDER = ("unter", "sous", "dessous", "bajo", "debajo", "sotto", "sob", "embaixo", "debaixo")
PURPOSE = words_of("für pour para per")
NOT = words_of("ohne kein keine keinen sans sin senza sem nicht")
PORTUGUESE = words_of("um uma dois duas três com em ao na")  # its "no" is "in the"
# Words that ask or wish, and other words that only hold a sentence together.
ASKING = words_of(
    "ich möchte möcht hätte hätten gern gerne will wünsche mir mich uns wir bitte danke zeichne zeichnen male malen "
    "mal mach zeig zeige sehen haben kannst könntest du ein bild foto zeichnung je j nous voudrais veux aimerais veut "
    "voudrions plaît s'il vous te moi merci dessine dessinez dessiner fais faire voir avoir peux pourrais tu "
    "dessine-moi montre-moi dessin quiero queremos quisiera gustaría me nos ver tener dibuja dibújame dibujar haz "
    "hazme muestra puedes podrías favor por gracias dibujo imagen vorrei voglio vogliamo piacerebbe mi ci vedere "
    "avere disegna disegnami disegnare fammi mostra mostrami puoi potresti favore grazie immagine disegno quero "
    "queria gostaria gostava ter desenha desenhe desenhar faça mostre pode poderia obrigado obrigada imagem desenho "
    "est sind ist"
)
LARGE = words_of(
    "groß große großer großes großen riesig riesige riesiger riesiges riesigen grand grande grands grandes "
    "énorme énormes gros grosse gigante gigantes enorme enormes grandi enormi gran"
)
SMALL = words_of(
    "klein kleine kleiner kleines kleinen kleinem winzige winziger winziges petit petite petits petites "
    "pequeño pequeña pequeños pequeñas piccolo piccola piccoli piccole pequeno pequena pequenos pequenas"
)
GERMAN_ENDINGS = ("", "e", "er", "es", "en", "em")
GERMAN_COLOURS = {
    "red": "rot", "yellow": "gelb", "green": "grün", "blue": "blau", "purple": "violett lilan", "brown": "braun",
    "gray": "grau", "black": "schwarz", "white": "weiß", "turquoise": "türkis", "orange": "orangen", "pink": "rosan",
}  # fmt: skip
ROMANCE_COLOURS = {
    "red": "rouge rouges rojo roja rojos rojas rosso rossa rossi rosse vermelho vermelha vermelhos vermelhas",
    "orange": "naranja naranjas arancione arancioni laranja laranjas anaranjado anaranjada",
    "yellow": "jaune jaunes amarillo amarilla amarillos amarillas giallo gialla gialli gialle amarelo amarela amarelos "
    "amarelas dorado dorada dourado dourada",
    "green": "vert verte verts vertes verde verdes verdi",
    "blue": "bleu bleue bleus bleues azul azules azuis blu azzurro azzurra azzurri azzurre",
    "purple": "violette violets violettes morado morada morados moradas viola roxo roxa roxos roxas lila",
    "pink": "rosafarben rosado rosada rosa rosas roses rose",
    "brown": "marron marrons brun brune bruns brunes marrón marrones marrone marroni marrom marrons",
    "gray": "gris grise grises grigio grigia grigi grigie cinza cinzas",
    "black": "noir noire noirs noires negro negra negros negras nero nera neri nere preto preta pretos pretas",
    "white": "blanc blanche blancs blanches blanco blanca blancos blancas bianco bianca bianchi bianche branco branca "
    "brancos brancas",
    "turquoise": "turquesa turquesas turchese turchesi",
}
COLOURS = {
    **{word: name for name, words in ROMANCE_COLOURS.items() for word in words.split()},
    **{
        stem + ending: name
        for name, stems in GERMAN_COLOURS.items()
        for stem in stems.split()
        for ending in GERMAN_ENDINGS
    },
}
# Colours that are also things: they colour only a thing that they stand beside.
ALSO_THINGS = words_of("rouge rouges rosa rosas rose roses viola naranja naranjas laranja laranjas arancione arancioni")
# What faces do, as the English word that begins the face's name.
MOODS = {
    "crying": "weinend weinende weinender weinendes weint pleure pleurant llorando llora piangendo piange "
    "chorando chora",
    "sad": "traurig traurige trauriger trauriges triste tristes tristi",
    "laughing": "lachend lachende lachender lachendes lacht riant riendo ríe ridendo ride rindo ri",
    "angry": "wütend wütende wütender wütendes böse böser böses fâché fâchée colère enojado enojada enfadado enfadada "
    "arrabbiato arrabbiata zangado zangada furioso furiosa",
    "sleeping": "schlafend schlafende schlafender schlafendes schläft dormant dort durmiendo duerme dormendo dorme "
    "dormindo müde fatigué cansado stanco",
    "happy": "glücklich glückliche glücklicher glückliches fröhlich heureux heureuse content contento feliz felices "
    "felice alegre",
}
FACES = words_of("gesicht visage cara faccina faccia rosto carinha")
ENDINGS = (  # of plurals -> of the singulars
    ("eaux", "eau"), ("aux", "al"), ("aux", "au"), ("eux", "eu"), ("ones", "ón"), ("anes", "án"), ("ines", "ín"),
    ("ces", "z"), ("es", ""), ("ões", "ão"), ("ães", "ão"), ("ãos", "ão"), ("ais", "al"), ("éis", "el"), ("is", "il"),
    ("ns", "m"), ("chi", "co"), ("ghi", "go"), ("che", "ca"), ("ghe", "ga"), ("ie", "ia"), ("i", "io"), ("i", "o"),
    ("i", "e"), ("i", "a"), ("e", "a"), ("s", ""), ("x", ""), ("nen", "n"), ("en", "e"), ("en", ""), ("n", ""),
    ("er", ""), ("e", ""), ("", ""),
)  # fmt: skip
UMLAUTS = str.maketrans("äöü", "aou")
WORDS = frozenset(
    word
    for words in (
        ARTICLES,
        JOINTS,
        OF,
        PURPOSE,
        NOT,
        ASKING,
        COLOURS.keys() - ALSO_THINGS,
        {"rouges", "rosas"},
        LARGE,
        SMALL,
        *map(str.split, MOODS.values()),
        *map(str.split, NUMBERS.values()),
    )
    for word in words
) - words_of(
    "me i e y a do per male come will die ride sei due mal content violet orange sin pour lo os dos"
)  # English has those, too


def singulars_of(word: str) -> Iterator[str]:
    """What a word may be the plural of."""
    for ending, singular in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 2:
            stem = word.removesuffix(ending) + singular
            yield stem
            yield stem.translate(UMLAUTS)
