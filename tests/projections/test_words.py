"""Words of texts in the forms in which they are compared."""

import hashlib

import pytest
from hypothesis import given, strategies as st

from memplane.projections.files import normalised

WORDS = st.text(" \t\n\u3000aA\u03a3\u0130.\u0301'-", max_size=120)


@given(WORDS, st.integers(1, 12))
def test_long_texts_are_compared_as_short_ones_are(text, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memplane.projections.files._PART", size)
        found = normalised(text)
        again = normalised(f"\n\n {text.replace(' ', '   ')}\t")
    whole = " ".join(text.lower().split())
    assert found == again
    if len(whole) <= size:
        assert found == whole
    else:
        digest = hashlib.sha256(f" {whole}".encode()).hexdigest()
        assert found == f"\0{digest}{' ' * min(whole.count(' '), 64)}"
