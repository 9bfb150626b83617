"""A process without the kernel counts, cuts and indexes as one that has it; so does an install."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from builders_wheels import wheel

from memplane import kernel

ROOT = Path(__file__).parents[2]
SCRIPT = """
import hashlib, sys
if sys.argv[1] == "plain":
    sys.modules["memplane._kernel"] = None
from memplane import kernel, tokens
from memplane.index.segment import build_segment, encode_segment, word_traits
from memplane.index.terms import Document, TermVocabulary
from memplane.wiring import make_counter
assert (kernel.BUILT is None) == (sys.argv[1] == "plain")
texts = open(sys.argv[2], encoding="utf-8").read().split("\\n\\n")
documents = [Document(seq, text=text, extra="user May 2026") for seq, text in enumerate(texts, 1)]
segment = build_segment(documents[:250], 0, TermVocabulary(word_traits))
print(hashlib.sha256(encode_segment(segment, 0, 1)).hexdigest())
counter = make_counter("bound/1", 1_000_000)
print([counter.count(text) for text in texts])
print([len(tokens.cut(counter, text, 20)) for text in texts])
"""


@pytest.mark.skipif(kernel.BUILT is None, reason="the kernel was not built")
def test_two_processes_give_the_same(tmp_path):
    text = "\n\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))[:6])
    (tmp_path / "texts").write_text(
        text + "\n\n\u043d\u0430 \u0440\u0435\u043a\u0435, 語の船 caf\u00e9\u2026 don\u2019t"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, which, str(tmp_path / "texts")],
            capture_output=True, text=True, check=True, cwd=ROOT,
        ).stdout
        for which in ("built", "plain")
    ]  # fmt: skip
    assert said[0]
    assert said[0] == said[1]


@pytest.mark.timeout(180)
def test_without_a_compiler_the_wheel_is_made_and_is_pure_python(tmp_path):
    file = wheel(tmp_path, CC="/bin/false")
    assert file.name.endswith("-py3-none-any.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(file).extractall(site)
    assert [one.name for one in (site / "memplane").glob("_kernel*")] == []
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import memplane\n"
        "from memplane import kernel\n"
        "assert memplane.__file__.startswith(sys.argv[1]) and kernel.BUILT is None\n"
        "with memplane.init(sys.argv[2]) as plane:\n"
        "    plane.record('hello herons', role='user')\n"
        "    assert plane.search('herons')\n"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(site), str(tmp_path / "p")], check=True, cwd=tmp_path
    )
