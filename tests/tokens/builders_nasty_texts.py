# ruff: noqa: RUF001 - letters of many scripts are what this is about
"""Texts that tempt a counter to count too little: many scripts, cut and mixed at random."""

SENTENCES = (
    "The quick brown fox doesn't jump; it's tired, they're asleep and we'll wait.\n\nNext day: 42.",
    "Der Fluß fließt über die Straße, während Ärzte größere Äpfel essen. ",
    "El niño pequeño comió piñas; ¿quién las pagó? ¡Nadie! ",
    "Вчера мы ходили в лес, а сегодня идёт дождь. ЖИЗНЬ хороша! ",
    "오늘은 날씨가 좋아서 공원에 갔습니다. 내일도 갈까요? ",
    "今天我们一起去公园散步,看到了很多花。明天再来吧！",
    "今日はとても良い天気です。カタカナとひらがなを混ぜて書く。ーー",
    "नमस्ते, आज मौसम बहुत अच्छा है। कल फिर मिलेंगे। १२३४ ",
    "السلام عليكم، كيف حالك اليوم؟ هذا نصّ قصير. ٣٤٥ ",
    "שָׁלוֹם, מה שלומך היום? ",
    "สวัสดีครับ วันนี้อากาศดีมาก ",
    "Καλημέρα κόσμε, τι κάνεις σήμερα; ",
    "😀 fine 👍🏽 👨‍👩‍👧‍👦 family 🏳️‍🌈 flag 🇩🇪 ☕️ ",
    'def f(x):\n    """Doc."""\n    return {"a": [x, -1], "b": f"{x!r}"}\n\n\n# ---- end ----\n',
    '// first\n//second\n/* block */\nint main(void) {\n\tputs("a\\n");\r\n\treturn 0;\r\n}\n',
    "| a | b |\n|---|---|\n| 1 | `x` |\n\n```python\nprint(1)\n```\n> quote\n* * *\n========\n",
    '{"id":"evt_0001","ts":"2026-01-05T12:17:31.459000Z","ok":true,"n":[1,2.5,-3e10],"s":"a\\tb"}\n',
    "SGVsbG8sIHdvcmxkISBUaGlzIGlzIGJhc2U2NC4gL3Rlc3QvK3Rlc3Q9PQ== 9f86d081884c7d659a2feaa0c55ad015\n",
    "GET /a//b/../c?x=1&y=%20 HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "XMLHttpRequest iPhone camelCaseNames SCREAMING_CASE snake_case kebab-case McDonald's O'NEILL'S ",
)

ATOMS = (
    "/ // /// \\ . ; ); ( () {} }} }]} */ /* --- ==== #### ``` *** ___ ... … — « » 。 ！ 、 ' \" `` !! ?! :: -> => ±"
    " 's 'S 'll 'LL 've 'rE 'd 'M '\u017f \u017f \u212a K k 1 12 123 1234 12345678 ² Ⅷ ½ ٣ १ 〇"
    " \u0301 a\u0301 \u0301\u0302 \u200d \ufe0f \u20e3 😀 👨‍👩‍👧 🇩🇪 🏽 \u0378 \u0530 \U0001fbff \U000e0041 \U0010ffff \ue000"
    " \ud800 \udfff \U00020000 \U0002f800 \u1c80 \u10d0 \u1c90 \u13a0 \uab70 \u2c60 \ua640 \u180e \u1885 \u0673 ﬁ İ ẞ ǅ ʰ ª"
    " aB Ab AB aBc ABc ﷽ ꙮ x\ufeff \x00 \x1c \x1f \x7f \x9f \xad \u200b"
    " dGhlIHF1aWNrIGJyb3duIGZveA== 0x7fffdeadbeef zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
    " " + "-" * 70 + " " + "漢字" * 12
).split(" ")
ATOMS += ["\n", "\n\n", "\n\n\n", "\r", "\r\n", "\n\r", "\n//", "\n/", "\n ", " \n", "  \n", "\t\n"]
ATOMS += [
    " ",
    "  ",
    " " * 7,
    "\t",
    "\t ",
    "\x0b",
    "\x0c",
    "\x85",
    "\xa0",
    "\u2003",
    "\u2028",
    "\u3000",
    " \u3000 ",
]


def texts(rng, trials):
    """Substrings with atoms inserted, atoms alone, and any characters at all."""
    for _ in range(trials):
        way = rng.random()
        if way < 0.65:
            whole = rng.choice(SENTENCES) + rng.choice(SENTENCES)
            start = rng.randrange(len(whole))
            text = whole[start : start + rng.randrange(1, 70)]
            for _ in range(rng.randrange(6)):
                at = rng.randrange(len(text) + 1)
                text = text[:at] + rng.choice(ATOMS) + text[at:]
        elif way < 0.9:
            text = "".join(rng.choice(ATOMS) for _ in range(rng.randrange(1, 14)))
        else:
            text = "".join(
                chr(rng.randrange(0x30000)) if rng.random() < 0.6 else rng.choice(ATOMS)
                for _ in range(rng.randrange(1, 10))
            )
        yield text
