"""An agent's loop: record each turn, pack before each call, and never send more than the budget.

The model here is a function that reads its context, so the program runs offline; put a client of
your own in its place. Run it twice: the second time it knows what the first one was told.

    python examples/agent_loop.py [FOLDER]
"""

import sys

import memplane

BUDGET = 1_000  # tokens of each block
SYSTEM = "You help to sail a small boat. Context from earlier:\n\n"


def model(messages: list[dict[str, str]]) -> str:
    """Answer from the context alone, as a model would that knows nothing of this boat."""
    context, question = messages[0]["content"], messages[-1]["content"]
    if question.endswith("?"):
        known = [line for line in context.splitlines() if "reefs at" in line and "?" not in line]
        return known[0].split(": ")[-1] if known else "I do not know when she reefs."
    return "Noted."


def turn(plane: memplane.Plane, session: str, prompt: str) -> str:
    """One turn: the prompt into the log, the block into the context, the answer into the log."""
    plane.record(prompt, role="user", session=session)
    block = plane.pack(prompt, session=session, budget=BUDGET, channel="agent")
    assert block.tokens <= BUDGET
    answer = model(
        [
            {"role": "system", "content": SYSTEM + block.text},
            {"role": "user", "content": prompt},
        ]
    )
    plane.record(answer, role="assistant", session=session)
    return answer


def main(folder: str) -> None:
    """Two sessions: what the first is told, the second finds."""
    with memplane.init(folder) as plane:
        plane.work.sessions.start("monday", agent="skipper")
        print("monday :", turn(plane, "monday", "The Heron reefs at 22 knots"))
        plane.work.sessions.end("monday")
        plane.work.sessions.start("tuesday", agent="skipper")
        print("tuesday:", turn(plane, "tuesday", "When do we reef?"))
        plane.work.sessions.end("tuesday")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "heron-plane")
