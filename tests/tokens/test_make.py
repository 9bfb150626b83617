import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from builders_counters import MADE_HERE
from builders_nasty_texts import texts

import memplane.tokens
from memplane.errors import InputError, MissingExtraError
from memplane.tokens import lines, make, single_bytes, unpack

FILE = Path(memplane.tokens.__file__).with_name("bound1.xz")


def test_every_counter_goes_by_its_name(table):
    for name in MADE_HERE:
        assert make(name, table=table).name == name
        assert make(name, table=table, scale_ppm=1_200_000).name == name


def test_an_unknown_counter_is_refused_with_the_known_ones():
    with pytest.raises(InputError) as found:
        make("o100k", table=bytes)
    assert str(found.value) == (
        "counter: unknown counter `o100k`; expected one of `bound/1`, `o200k`, `cl100k`, `len4`"
    )
    assert found.value.where == "counter"


def test_a_scale_of_nothing_is_refused():
    with pytest.raises(InputError, match="scale: expected a scale above 0, found 0 ppm"):
        make("len4", scale_ppm=0, table=bytes)


def test_len4_is_a_quarter_of_each_line_rounded_up():
    counter = make("len4", table=bytes)
    assert [counter.count(text) for text in ("", "a", "abcd", "abcde", "abc\n", "abcd\na")] == [
        0,
        1,
        1,
        2,
        1,
        3,
    ]


def test_a_scale_is_rounded_up_line_by_line(table, bound):
    scaled = make("bound/1", scale_ppm=1_200_000, table=table)
    for text in texts(random.Random(3), 500):
        assert scaled.count(text) == sum(-(-bound.count(line) * 12 // 10) for line in lines(text))


def test_the_table_holds_the_vocabularies_of_both_encodings(table, encodings):
    ranks = unpack(table()).ranks
    assert [len(each) for each in ranks] == [199_998, 100_256]
    for each, encoding in zip(ranks, encodings.values(), strict=True):
        decode = encoding.bpe().decode_tokens
        sample = [*range(300), *range(300, len(each), 37), len(each) - 1]
        assert {rank: bytes(decode([rank])) for rank in sample}.items() <= {
            r: t for t, r in each.items()
        }.items()
    assert sorted(single_bytes()) == [bytes((value,)) for value in range(256)]


def test_the_table_is_the_file_that_the_name_stands_for():
    digest = hashlib.sha256(FILE.read_bytes()).hexdigest()
    assert digest == "6c8a92f9ff8eda6c190919fb950281281aab18bf6547969c4d03d5c8522c217c"


@pytest.mark.long
def test_building_the_table_again_gives_the_same_bytes(tmp_path, encodings):
    tool = FILE.parents[2] / "tools" / "build_bound1.py"
    command = [sys.executable, str(tool), str(tmp_path / "again.xz")]
    subprocess.run(
        command, check=True, capture_output=True, cwd=FILE.parents[2], env={"PYTHONPATH": "."}
    )
    assert (tmp_path / "again.xz").read_bytes() == FILE.read_bytes()
    laid_out = FILE.with_suffix(".idx").read_bytes()
    assert (tmp_path / "again.idx").read_bytes() == laid_out


COUNT = """
import sys, json, random
from pathlib import Path
if sys.argv[1] == "without":
    sys.modules["rs_bpe"] = None
sys.path[:0] = [sys.argv[3], sys.argv[4]]
from builders_nasty_texts import texts
from memplane.tokens import make
packed = Path(sys.argv[2]).read_bytes()
counter = make("bound/1", table=lambda: packed)
print(json.dumps([counter.count(text) for text in texts(random.Random(5), 1500)]))
"""


def test_the_same_integers_with_and_without_rs_bpe_and_under_any_hash_seed(bound):
    here = [bound.count(text) for text in texts(random.Random(5), 1500)]
    for with_or_without, seed in (("with", "0"), ("without", "1")):
        places = [str(FILE), str(FILE.parents[2]), str(Path(__file__).parent)]
        answer = subprocess.run(
            [sys.executable, "-c", COUNT, with_or_without, *places],
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed},
        )
        assert json.loads(answer.stdout) == here


def test_an_encoding_without_its_extra_names_the_extra(monkeypatch, table):
    monkeypatch.setitem(sys.modules, "rs_bpe", None)
    with pytest.raises(MissingExtraError) as found:
        make("o200k", table=table)
    assert (
        str(found.value)
        == "the counter `o200k` needs an optional dependency: pip install 'memplane[tokens]'"
    )
    assert found.value.extra == "tokens"
