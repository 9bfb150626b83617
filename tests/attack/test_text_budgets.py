"""Texts chosen to make a counter count too little, in a plane that is packed for every budget.

Who attacks: whoever can get a text recorded: a tool, a page, an importer, a user. What they
control: every character, in any script, and how many.

What is promised: no block costs more than its budget in o200k or cl100k (rs-bpe counts), nor less
in memplane's count than in either; its tokens are the sum of its entries and its frame; what is
given as messages is the same text.
"""

import base64
import random

import pytest

import memplane
from memplane.errors import MemplaneError

rs_bpe = pytest.importorskip("rs_bpe", reason="exact counts need the `tokens` extra")

NOW = "2027-01-01T00:00:00Z"
PIECES = {
    "cjk": lambda r: "".join(chr(r.randrange(0x4E00, 0x9FFF)) for _ in range(9)),
    "hangul": lambda r: "".join(chr(r.randrange(0xAC00, 0xD7A3)) for _ in range(7)) + " ",
    "jamo": lambda r: "".join(chr(r.randrange(0x1100, 0x11FF)) for _ in range(7)),
    "emoji": lambda r: r.choice(["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇰🇷", "☕️", "🧑🏿‍🚀"]) * 3,
    "astral": lambda r: "".join(chr(r.randrange(0x10000, 0x3FFFF)) for _ in range(5)),
    "combining": lambda r: "a" + "".join(chr(r.randrange(0x300, 0x36F)) for _ in range(9)),
    "base64": lambda r: base64.b64encode(r.randbytes(40)).decode(),
    "hex": lambda r: r.randbytes(20).hex(),
    "white": lambda r: "".join(r.choices(" \t\n\r\x0b\x0c\x85\xa0\u2003\u2028\u3000", k=12)),
    "unicode 15": lambda r: "".join(chr(r.randrange(0x1E4D0, 0x1E4F9)) for _ in range(5)),
    "unicode 16": lambda r: "".join(chr(r.randrange(0x10D40, 0x10D8F)) for _ in range(5)),
    "unicode 17": lambda r: "".join(chr(r.randrange(0x11DB0, 0x11DE9)) for _ in range(5)),
    "special": lambda r: r.choice(
        ["<|endoftext|>", "<|im_start|>system", "<|endofprompt|>", "<|fim_prefix|>", "<|return|>"]
    ),
    "long": lambda r: r.choice("az_-=#.\u4e00é") * r.randrange(1, 300),
    "controls": lambda r: "".join(chr(r.randrange(1, 32)) for _ in range(6)),
    "private": lambda r: chr(r.randrange(0xE000, 0xF8FF)) * 4 + "\ufeff\u200b\u202e\u00ad",
    "words": lambda r: "herons nest " * r.randrange(1, 9),
    "marks": lambda r: r.choice(["~~~~\n", "## Rules\n", "// ", "memplane:end 0\n", "user: ", "'ll 'RE"]),
    "numbers": lambda r: str(r.randrange(10**12)) + r.choice([",", "½", "१२३", "²"]),
    "scripts": lambda r: r.choice(["ขอบคุณ", "Ⴀⴀ", "ꙮ", "ǅ", "ß", "İ", "نصّ", "שָׁ", "ᠠ", "𞤀"]) * 4,
}  # fmt: skip


def text(chance):
    return "".join(
        PIECES[chance.choice(list(PIECES))](chance) for _ in range(chance.choice([1, 3, 9, 40]))
    )


def rows(chance, count):
    kinds = ["message"] * 4 + ["decision", "fact", "rule", "preference", "tool_result", "summary"]
    made = []
    for number in range(count):
        row = {"text": f"{number} {text(chance)}", "kind": chance.choice(kinds), "id": f"t{number}"}
        row["session"] = f"s{number % 4}"
        row["role"] = (
            "tool" if row["kind"] == "tool_result" else chance.choice(["user", "assistant"])
        )
        if row["kind"] in ("decision", "fact") and chance.random() < 0.5:
            row["key"] = f"k{chance.randrange(40)}"
        made.append(row)
    return made


def request(chance, head):
    asked = {
        "query": chance.choice(["", "herons", text(chance)])[:4000],
        "budget": int(10 ** chance.uniform(0, 4.85)),
        "intent": chance.choice(["auto", "fast", "deep", "orient"]),
        "channel": chance.choice(["private", "agent", "team", "public"]),
        "session": chance.choice([None, "s0", "s3", "none"]),
        "now": NOW,
    }
    more = {
        "cited": True,
        "as_of": chance.randrange(1, head),
        "sections": ["rules", "retrieved_evidence"],
        "expand": [f"expand://event/{chance.randrange(2, head)}"],
        "held_seq": chance.randrange(head),
    }
    return asked | {name: value for name, value in more.items() if chance.random() < 0.2}


def wrong(plane, asked, encodings):
    """What a block breaks of the promises; None where the request is refused."""
    try:
        block = plane.pack(**asked)
    except MemplaneError:
        return None
    found = []
    costs = [one.count(block.text) for one in encodings]
    if max(costs) > asked["budget"]:
        found.append(f"costs {costs} of {asked['budget']}")
    if block.tokens < max(costs):
        found.append(f"counted {block.tokens}, costs {costs}")
    if block.tokens > asked["budget"]:
        found.append(f"says {block.tokens} of {asked['budget']}")
    if block.tokens != sum(one.tokens for one in block.entries) + block.report["frame_tokens"]:
        found.append("is not the sum of its entries")
    found += [
        f"as messages for {provider} it is another text"
        for provider in ("openai", "anthropic")
        if said(block.messages(provider)) != block.text
    ]
    return [f"{asked}: {one}" for one in found]


def said(messages):
    """All text in messages of a provider, in order."""
    if isinstance(messages, dict):
        return "".join(said(value) for key, value in messages.items() if key in ("system", "messages", "content", "text"))  # fmt: skip
    if isinstance(messages, list | tuple):
        return "".join(map(said, messages))
    return messages if isinstance(messages, str) else ""


@pytest.mark.parametrize(
    ("seed", "events", "packs"),
    [
        (0, 150, 60),
        *(
            pytest.param(seed, 1400, 500, marks=[pytest.mark.long, pytest.mark.timeout(3600)])
            for seed in range(1, 7)
        ),
    ],
)
def test_no_text_makes_a_block_cost_more_than_its_budget(tmp_path, seed, events, packs):
    from rs_bpe.bpe import openai

    encodings = (openai.o200k_base(), openai.cl100k_base())
    chance = random.Random(f"budgets {seed}")
    broken, packed = [], 0
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        plane.record_many(rows(chance, events))
        head = plane.head().seq
        for _ in range(packs):
            found = wrong(plane, request(chance, head), encodings)
            packed += found is not None
            broken += found or []
    assert not broken, "\n".join(broken[:20])
    assert packed > packs * 0.6, "most requests were refused: the test shows little"
