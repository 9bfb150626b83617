"""Whoever asks first after an import is a hook, which folds no more than 10,000 lines."""

import json

import memplane
from memplane.importers import import_paths


def test_after_an_import_nothing_is_left_to_fold(tmp_path):
    file = tmp_path / "rows.jsonl"
    rows = [
        {"text": f"Turn {n} of the parser.", "role": "user", "session": f"s{n // 50}"}
        for n in range(1_200)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with memplane.init(tmp_path / "plane", trusted=False) as plane:
        assert import_paths(plane, None, [file]).events == len(rows)
    with memplane.open(tmp_path / "plane") as plane, plane.context.lock:
        policies = plane.upkeep.policies
        assert plane.context.lines_to_fold(policies, digests=True) == 0
