"""What a model noted of a conversation changes nothing about who talks in it."""

import memplane

QUESTION = "Which pets does Ana have?"


def test_a_fact_of_a_model_makes_it_no_third_person_in_a_talk_of_two(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False) as plane:
        ids = []
        for n in range(80):
            who = ("Ana", "Ben")[n % 2]
            text = (
                "I took my pup to the river." if n == 40 else f"{who} talks of boat {n} and rain."
            )
            row = plane.record(text, role="user", actor=who, session=f"s{n // 8}")
            ids.append(row.id)
        before = [(hit.event.id, hit.score) for hit in plane.search(QUESTION, k=20)]
        block = plane.pack(QUESTION, budget=600).text
        plane.record(
            "Boats were talked of.", kind="fact", actor="reflector:scripted:1", session="s1",
            refs=[ids[9]], data={"derived": True},
        )  # fmt: skip
        after = [(hit.event.id, hit.score) for hit in plane.search(QUESTION, k=20)]
        assert [id_ for id_, _ in after] == [id_ for id_, _ in before]
        assert "pup" in block
        assert "pup" in plane.pack(QUESTION, budget=600).text
        assert after[0][0] == ids[40]
