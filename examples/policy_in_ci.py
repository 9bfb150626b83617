"""What must hold under a repository's policies, checked in CI: exit 1 where it does not.

A scenario says what was recorded, what is asked, and what the block must and must not hold. Here
one is run under the policies of a plane, then under a change that breaks it: a budget so small that
the decision no longer fits.

    python examples/policy_in_ci.py [FOLDER]
"""

import subprocess
import sys
from pathlib import Path

import memplane

SCENARIO = """\
version: 1
scenario: database-decision
title: The decision in force is in the block, the replaced one is not
given:
  events:
    - {id: old, kind: decision, key: db.engine, text: We keep PostgreSQL}
    - {id: new, kind: decision, key: db.engine, text: "We move to SQLite: one file, no server"}
when:
  - pack: which database do we use?
assertions:
  - contains: {event: new}
  - lacks: {event: old}
"""


def holds(home: Path) -> bool:
    """Whether the plane's scenarios hold under its policies, as `memplane scenario run` has it."""
    command = [sys.executable, "-m", "memplane", "scenario", "run", str(home / "scenarios")]
    command += ["--policies", str(home / "policies")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout.splitlines()[-1])
    return done.returncode == 0


def main(folder: str) -> int:
    """Run the scenario as it is, and under a budget of a dozen tokens."""
    home = Path(folder)
    memplane.init(home).close()
    (home / "scenarios" / "database.yaml").write_text(SCENARIO)
    as_it_is = holds(home)
    budgets = home / "policies" / "budgets.yaml"
    text = budgets.read_text()
    budgets.write_text(text.replace("default_pack_tokens: 4000", "default_pack_tokens: 12"))
    under_less = holds(home)
    budgets.write_text(text)
    print(f"as it is: {as_it_is}; with 12 tokens: {under_less}")
    return 0 if as_it_is and not under_less else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else "ci-plane"))
