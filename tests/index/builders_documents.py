"""Builders of documents. Vocabulary is small, so that terms are shared and ties happen."""

import random
from itertools import accumulate

from hypothesis import strategies as st

from memplane.index.terms import Document

WORDS = (
    "ledger PostgreSQL migration migrated tests passed failed painting paintings went bought "
    "parse_http_url HTTPServer src/db/pool.py E0308 ORA-00942 Tokyo guitar guitars don't 1,200 "
    "데이터베이스 数据库 テスト May the of and children Caroline organisations organized"
).split()
SPEAKERS = ("Ann", "Bob", "")

texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@st.composite
def document_lists(draw, max_size=40):
    rows = draw(
        st.lists(
            st.tuples(texts, st.sampled_from(SPEAKERS), st.integers(0, 3), st.integers(1, 3)),
            max_size=max_size,
        )
    )
    return [
        Document(
            seq * 3,
            part,
            f"s{group}" if group else "",
            "user",
            speaker,
            text,
            speaker,
            len(text) // 4,
            labels=(f"ns:/{group}",),
        )
        for seq, (text, speaker, group, parts) in enumerate(rows, 1)
        for part in range(parts)
    ]


def made_up(count, start=1):
    """Many documents, the same every time."""
    found = []
    state = 12345 + start
    for seq in range(start, start + count):
        picked = []
        for _ in range(3 + seq % 9):
            state = (state * 1103515245 + 12345) % (1 << 31)
            picked.append(WORDS[(state >> 8) % len(WORDS)] + ("" if state % 3 else str(state % 40)))
        text = " ".join(picked)
        group = f"s{state % 7}"
        found.append(
            Document(seq, 0, group, "user", SPEAKERS[seq % 3], text, "May 2023", 9 + seq % 50)
        )
    return found


def zipf(count, vocabulary=4000, seed=11):
    """Documents of some forty words as rare and as frequent as those of real texts."""
    chance = random.Random(seed)
    words = [f"w{number}" for number in range(vocabulary)]
    weights = list(accumulate(1 / (20 + number) for number in range(vocabulary)))
    return [
        # Every fourth event has two documents.
        Document(
            seq, part, f"s{seq // 50}", "user", SPEAKERS[seq % 3],
            " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(5, 75))),
            "May 2023", 40,
        )
        for seq in range(1, count + 1)
        for part in range(2 if seq % 4 == 0 else 1)
    ]  # fmt: skip
