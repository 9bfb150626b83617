"""The forward pass against a plain one, sum by sum, on small made-up weights."""

import json
import math
import random

import numpy as np
import pytest

from memplane.adapters.minilm import Encoder, read_tensors

WIDTH, WIDE, LAYERS, PIECES, PLACES = 64, 96, 2, 20, 12


def shapes():
    yield "embeddings.word_embeddings.weight", (PIECES, WIDTH)
    yield "embeddings.position_embeddings.weight", (PLACES, WIDTH)
    yield "embeddings.token_type_embeddings.weight", (2, WIDTH)
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
        sizes = {
            "attention.self.query": (WIDTH, WIDTH),
            "attention.self.key": (WIDTH, WIDTH),
            "attention.self.value": (WIDTH, WIDTH),
            "attention.output.dense": (WIDTH, WIDTH),
            "intermediate.dense": (WIDE, WIDTH),
            "output.dense": (WIDTH, WIDE),
        }
        for part, shape in sizes.items():
            yield f"{name}.{part}.weight", shape
            yield f"{name}.{part}.bias", shape[:1]
    for norm in norms:
        yield f"{norm}.weight", (WIDTH,)
        yield f"{norm}.bias", (WIDTH,)


@pytest.fixture(scope="module")
def tensors():
    rng = np.random.default_rng(7)
    return {name: rng.normal(0, 0.4, shape).astype("<f4") for name, shape in shapes()}


@pytest.fixture(scope="module")
def encoder(tensors):
    return Encoder(tensors)


def plain(tensors, numbers):
    """One text in lists and `math`, as the paper writes it."""
    get = {name: tensor.tolist() for name, tensor in tensors.items()}

    def linear(name, row):
        weight, bias = get[f"{name}.weight"], get[f"{name}.bias"]
        return [
            math.fsum([b, *(w * x for w, x in zip(line, row, strict=True))])
            for line, b in zip(weight, bias, strict=True)
        ]

    def norm(name, row):
        mean = math.fsum(row) / len(row)
        var = math.fsum((x - mean) ** 2 for x in row) / len(row)
        pairs = zip(row, get[f"{name}.weight"], get[f"{name}.bias"], strict=True)
        return [(x - mean) / math.sqrt(var + 1e-12) * w + b for x, w, b in pairs]

    def add(left, right):
        return [a + b for a, b in zip(left, right, strict=True)]

    def attention(name, rows):
        query, key, value = (
            [linear(f"{name}.attention.self.{part}", row) for row in rows]
            for part in ("query", "key", "value")
        )
        out = []
        for i in range(len(rows)):
            seen = []
            for head in range(0, WIDTH, 32):
                part = slice(head, head + 32)
                dots = [
                    math.fsum(a * b for a, b in zip(query[i][part], k[part], strict=True))
                    for k in key
                ]
                powers = [math.exp(dot / math.sqrt(32)) for dot in dots]
                shares = [power / math.fsum(powers) for power in powers]
                seen += [
                    math.fsum(s * v[c] for s, v in zip(shares, value, strict=True))
                    for c in range(head, head + 32)
                ]
            out.append(linear(f"{name}.attention.output.dense", seen))
        return out

    def gelu(x):
        return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))

    kind = get["embeddings.token_type_embeddings.weight"][0]
    rows = [
        norm(
            "embeddings.LayerNorm",
            add(
                add(get["embeddings.word_embeddings.weight"][n], kind),
                get["embeddings.position_embeddings.weight"][place],
            ),
        )
        for place, n in enumerate(numbers)
    ]
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        seen = attention(name, rows)
        rows = [
            norm(f"{name}.attention.output.LayerNorm", add(r, s))
            for r, s in zip(rows, seen, strict=True)
        ]
        wide = [[gelu(x) for x in linear(f"{name}.intermediate.dense", row)] for row in rows]
        rows = [
            norm(f"{name}.output.LayerNorm", add(r, linear(f"{name}.output.dense", w)))
            for r, w in zip(rows, wide, strict=True)
        ]
    mean = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    length = math.sqrt(math.fsum(x * x for x in mean))
    return [x / length for x in mean]


@pytest.mark.parametrize("length", [1, 2, 5, PLACES])
def test_the_forward_pass_equals_a_plain_one(tensors, encoder, length):
    numbers = random.Random(length).choices(range(PIECES), k=length)
    assert encoder.encode([numbers])[0] == pytest.approx(plain(tensors, numbers), abs=1e-9)


def test_a_text_has_the_same_vector_alone_and_among_others(encoder):
    rows = [[1, 2, 3], [4, 5, 6], [3, 2, 1]]
    alone = np.concatenate([encoder.encode([row]) for row in rows])
    assert encoder.encode(rows) == pytest.approx(alone, abs=1e-12)


def test_the_activation_is_right_from_end_to_end(encoder):
    x = np.concatenate((np.linspace(-12, 12, 7_001), [-1e4, 1e4, -9, 9, 0]))
    exact = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x.tolist()]
    assert encoder._activated(x) == pytest.approx(exact, abs=1e-10)


def test_a_file_of_weights_gives_its_tensors_back(tensors):
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        place = [len(body), len(body) + tensor.nbytes]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": place}
        body += tensor.tobytes()
    line = json.dumps(header).encode()
    read = read_tensors(len(line).to_bytes(8, "little") + line + body)
    assert read.keys() == tensors.keys()
    assert all(np.array_equal(read[name], tensors[name]) for name in tensors)
