"""Reports as pages: `eval`, `stats --cache`, `policy replay`, `verify`, fault tests, the bench.

Each function takes the JSON of a command and gives the data of a page (see `page.document`): views
of parts, each with a title, a note, figures, a table or curves. They hold figures and names, and no
text of an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

_PPM: Final = 10_000  # of a percent
_ROWS_MAX: Final = 2_000
_HONEST: Final = "each fold under weights chosen without it"
_NAMES_MAX: Final = 20  # entries that came or went, in each pack


def _column(name: str, *, number: bool = True, bar: bool = False) -> Json:
    return {"name": name, "number": number, "bar": bar}


def _page(heading: str, about: Sequence[tuple[str, Any]], views: list[Json]) -> Json:
    told = [[name, str(value)] for name, value in about if value not in (None, "", [])]
    return {"title": f"memplane: {heading}", "heading": heading, "about": told, "views": views}


def _view(id_: str, label: str, lead: str, parts: list[Json], *commands: str) -> Json:
    words = [one.split() for one in commands]
    return {"id": id_, "label": label, "lead": lead, "parts": parts, "commands": words}


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)


def _ms(ns: int | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 1)


# --- eval ---


def evaluation_page(report: Mapping[str, Any]) -> Json:
    """The page of `eval`: recall by budget as curves, and every row of every group."""
    about, asked = report["set"], report["asked"]
    facts = [
        ("Conversations", about["conversations"]),
        ("Events", about["recorded"]),
        ("Questions", f"{about['questions']}, {about['with_evidence']} with evidence"),
        ("Counter", report["counter"]),
        ("Channel", asked["channel"]),
    ]
    views = []
    for at, group in enumerate(report["groups"]):
        name = group["name"] if group["group"] != "fold" else f"Fold {group['name']}"
        lead = "How much of the evidence for the questions is in their blocks, in percent."
        label = name or "All questions"
        views.append(_view(f"group-{at}", label, lead, _evaluation_parts(group)))
    return _page("how much of the evidence is found", facts, views)


def _evaluation_parts(group: Mapping[str, Any]) -> list[Json]:
    rows = group["rows"]
    budgets = sorted({row["budget"] for row in rows})
    systems = list(dict.fromkeys(row["system"] for row in rows))
    share = {(row["system"], row["budget"]): row["whole"] for row in rows}
    parts: list[Json] = [
        {
            "title": "Whole events in the block, by budget",
            "lines": {
                "label": "Percent of the evidence by tokens of the budget",
                "labels": [f"{budget:,} tokens" for budget in budgets],
                "series": [
                    {
                        "name": system,
                        "values": [_percent(share.get((system, one))) or 0 for one in budgets],
                    }
                    for system in systems
                ],
            },
        },
        {
            "title": "Figures",
            "note": "Whole: events that stand there whole. Words: the words of its events that say "
            "something and stand in their entries. Touched: events that stand there whole or in "
            "part. Any, all: questions with some, with all of their evidence.",
            "columns": [
                _column("System", number=False), _column("Budget"), _column("Questions"),
                _column("Whole", bar=True), _column("± questions"), _column("± conversations"),
                _column("Any"), _column("All"), _column("Words"), _column("Touched"),
                _column("Tokens"), _column("p50 ms"), _column("p95 ms"),
            ],
            "rows": [
                [
                    row["system"], row["budget"], row["questions"], _percent(row["whole"]),
                    _percent(row["whole_se_questions"]), _percent(row["whole_se_conversations"]),
                    _percent(row["whole_any"]), _percent(row["whole_all"]),
                    _percent(row["words"]), _percent(row["touched"]), round(row["tokens_mean"]),
                    _ms(row["p50_ns"]), _ms(row["p95_ns"]),
                ]
                for row in rows
            ],
        },
    ]  # fmt: skip
    found = group["search"]
    if found is not None:
        parts.append(
            {
                "title": "Search alone",
                "columns": [_column("Among the first", number=False), _column("Recall", bar=True)],
                "rows": [[rank, _percent(value)] for rank, value in found["recall_at"].items()],
            }
        )
    return parts


def replayed_page(report: Mapping[str, Any]) -> Json:
    """The page of `eval --sessions`: how often hooks would have answered, and what was needed."""
    parts = [_places(report, "All sessions")]
    parts += [
        _places(part, f"Part {at}: {part['sessions']} sessions")
        for at, part in enumerate(report["parts"], 1)
    ]
    facts = [("Sessions", report["sessions"]), ("Events", report["events"])]
    lead = "What hooks would have said to the sessions that were replayed, and what was needed."
    return _page("what hooks would have said", facts, [_view("hooks", "Hooks", lead, parts)])


def _places(found: Mapping[str, Any], title: str) -> Json:
    rows = []
    for name in ("starts", "prompts", "tools"):
        one = found[name]
        shares = [_percent(one[part]) for part in ("needed", "at_random", "newest")]
        rows.append([name, one["asked"], one["answered"], one["tokens"], one["tokens_median"],
                     one["passages"], *shares])  # fmt: skip
    columns = [_column("At", number=False), _column("Asked"), _column("Answered"),
               _column("Tokens"), _column("Median"), _column("Passages"), _column("Needed, %"),
               _column("At random, %"), _column("Newest, %")]  # fmt: skip
    return {"title": title, "columns": columns, "rows": rows}


def candidates_page(report: Mapping[str, Any]) -> Json:
    """The page of `eval --candidate`: weights fitted and judged on folds apart."""
    fitted = sorted(report["fitted"].items(), key=lambda one: -one[1])
    parts: list[Json] = [
        {
            "figures": [[f"{100 * report['honest']:.1f} %", _HONEST]],
            "title": "On all conversations",
            "columns": [_column("Weights", number=False), _column("Recall, %", bar=True)],
            "rows": [[name, _percent(share)] for name, share in fitted],
        },
        {
            "title": "By fold",
            "columns": [
                _column("Fold"),
                _column("Own recall, %", bar=True),
                _column("Best on the others", number=False),
            ],
            "rows": [
                [one["fold"] + 1, _percent(one["own"]), one["candidate"]] for one in report["folds"]
            ],
        },
    ]
    lead = "Weights are judged on conversations that did not choose them."
    return _page("which weights are best", [], [_view("folds", "Folds", lead, parts)])


# --- stats --cache ---


def cache_page(shared: Sequence[Mapping[str, Any]]) -> Json:
    """The page of `stats --cache`: what saved packs repeat, by session, and why they break."""
    breaks: dict[str, int] = {}
    for one in shared:
        for cause, count in one["breaks"].items():
            breaks[cause] = breaks.get(cause, 0) + count
    packs = sum(one["packs"] for one in shared)
    rows = [
        [
            one["session"], one["budget"], one["packs"], _of_ppm(one["shares"]["median_ppm"]),
            _of_ppm(one["shares"]["p10_ppm"]), one["kept"],
            *(_of_ppm(one["costs"][reuse]["of_fresh_ppm"]) for reuse in ("prompt", "call")),
            ", ".join(f"{cause} {count}" for cause, count in one["breaks"].items()),
        ]
        for one in shared[-_ROWS_MAX:]
    ]  # fmt: skip
    parts: list[Json] = [
        {
            "title": "By session",
            "note": "Share: tokens that a pack repeats from the start of the one before. Cost: "
            "against sending every block anew, if nothing expires; by prompt as if each pack came "
            "with a prompt of its own, by call with a call of the model.",
            "columns": [
                _column("Session", number=False), _column("Budget"), _column("Packs"),
                _column("Median share, %", bar=True), _column("p10, %"), _column("Stable kept"),
                _column("Cost by prompt, %"), _column("Cost by call, %"),
                _column("Breaks", number=False),
            ],
            "rows": rows,
        },
        {
            "title": "What broke a prefix",
            "columns": [_column("Cause", number=False), _column("Packs", bar=True)],
            "rows": [list(one) for one in sorted(breaks.items(), key=lambda one: -one[1])],
        },
    ]  # fmt: skip
    lead = f"{packs:,} saved packs of {len(shared):,} sessions and shapes."
    view = _view("cache", "Cache", lead, parts, "stats --cache")
    return _page("what a prompt cache can read", [("Packs", packs)], [view])


def _of_ppm(value: int | None) -> float | None:
    return None if value is None else round(value / _PPM, 1)


# --- policy replay ---


def trial_page(trial: Mapping[str, Any]) -> Json:
    """The page of `policy replay`: what enters, what leaves, what it costs, by section and pack."""
    before, after = trial["before"], trial["after"]
    names = [*dict.fromkeys([*before["sections"], *after["sections"]])]
    sections: list[list[Any]] = [
        [name.replace("_", " "), before["sections"].get(name, 0), after["sections"].get(name, 0),
         trial["enters"].get(name, 0), trial["leaves"].get(name, 0)]
        for name in names
    ]  # fmt: skip
    changed = [row for row in trial["rows"] if row["before"] and row["after"] and not row["same"]]
    changed.sort(key=lambda row: -sum(one["tokens"] for one in (*row["enters"], *row["leaves"])))
    summary: Json = {
        "figures": [
            [trial["packs"], "packs"], [trial["same"], "the same"], [len(changed), "changed"],
            [trial["failed"], "not packed"], [before["tokens"], "tokens before"],
            [after["tokens"], "tokens after"],
        ],
        "title": "Tokens by section",
        "columns": [_column("Section", number=False), _column("Before", bar=True),
                    _column("After", bar=True), _column("Enters"), _column("Leaves")],
        "rows": [row for row in sections if row[1] or row[2]],
    }  # fmt: skip
    shared: Json = {
        "title": "Repeated of the pack before",
        "columns": [_column("Policies", number=False), _column("Share, %", bar=True)],
        "rows": [
            [trial["from"], _of_ppm(before["prefix_ppm"])],
            [trial["to"], _of_ppm(after["prefix_ppm"])],
        ],
    }
    views = [
        _view("sections", "Sections", "What the other policies do to saved packs.",
              [summary, shared]),
        _view("packs", "Packs", "The packs that changed, those with the largest change first.",
              [_tried(row) for row in changed[:100]]),
    ]  # fmt: skip
    failed = [row for row in trial["rows"] if not (row["before"] and row["after"])]
    if failed:
        part = {
            "columns": [_column("Report", number=False), _column("Why", number=False)],
            "rows": [[row["report"], row["why"]] for row in failed[:_ROWS_MAX]],
        }
        views.append(_view("failed", "Not packed", "Requests that could not be packed.", [part]))
    return _page(
        "two policies on the same packs", [("From", trial["from"]), ("To", trial["to"])], views
    )


def _tried(row: Mapping[str, Any]) -> Json:
    moved = [
        [sign, one["section"].replace("_", " "), one["name"], one["tokens"]]
        for sign, some in (("enters", row["enters"]), ("leaves", row["leaves"]))
        for one in sorted(some, key=lambda one: (-one["tokens"], one["name"]))[:_NAMES_MAX]
    ]
    tokens = f"{row['before']['tokens']:,} to {row['after']['tokens']:,} tokens"
    session = f", session {row['session']}" if row["session"] else ""
    return {
        "title": row["report"],
        "note": f"{tokens}, at event {row['seq']}{session}",
        "columns": [_column("", number=False), _column("Section", number=False),
                    _column("Entry", number=False), _column("Tokens")],
        "rows": moved,
    }  # fmt: skip


# --- verify ---


def verify_page(report: Mapping[str, Any]) -> Json:
    """The page of `verify`: each fault with its place and the command that helps."""
    problems = report["problems"]
    fields = [*dict.fromkeys(name for one in problems for name in one)]
    parts: list[Json] = [
        {
            "figures": [
                [len(problems), "problems"],
                [report["segments"], "segments"],
                [report["events"], "lines"],
                [report["bodies"], "bodies"],
            ],
            "title": "Faults",
            "columns": [_column(name.replace("_", " "), number=False) for name in fields],
            "rows": [[_plain(one.get(name)) for name in fields] for one in problems[:_ROWS_MAX]],
        },
    ]
    told = [["note", one] for one in report["notes"]]
    told += [
        [
            "lost, and recorded so by a repair",
            f"segment {one['segment']}: seq {one['first']} to {one['last']}",
        ]
        for one in report["salvaged"]
    ]
    told += [["policy", one] for one in report["policy_mistakes"]]
    if told:
        columns = [_column("What", number=False), _column("Where", number=False)]
        parts.append({"title": "Besides", "columns": columns, "rows": told})
    lead = "Nothing is wrong." if report["ok"] else "What does not verify, and what helps."
    facts = [("Log", f"{report['head']['seq']:,} lines"), ("Bytes", f"{report['bytes']:,}")]
    view = _view("faults", "Faults", lead, parts, "verify", "repair --dry-run")
    return _page("what is wrong with a plane", facts, [view])


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) or value is None else str(value)


# --- faults, and the bench ---


def faults_page(summary: Mapping[str, Any]) -> Json:
    """The page of `reports/faults.json`: what each layer of faults did, and what it violated."""
    layers, rows = summary["layers"], summary["rows"]
    done = sum(one["done"] for one in layers.values())
    violated = sum(one["violations"] for one in layers.values())
    by_layer = {
        "figures": [[done, "faults"], [violated, "violations"], [len(layers), "layers"]],
        "title": "Layers",
        "columns": [_column("Layer", number=False), _column("Faults"), _column("Violations"),
                    _column("Seconds", bar=True)],
        "rows": [[name, one["done"], one["violations"], one["seconds"]]
                 for name, one in layers.items()],
    }  # fmt: skip
    found = [
        [row["layer"], row["operation"], str(one)] for row in rows for one in row["violations"]
    ]
    views = [
        _view("layers", "Layers", "Faults that were tried, by where they strike.", [by_layer]),
        _view("operations", "Operations", "The same by what was going on.", [_operations(rows)]),
    ]
    if found:
        columns = [_column(name, number=False) for name in ("Layer", "Operation", "Violation")]
        part = {"columns": columns, "rows": found[:_ROWS_MAX]}
        views.append(_view("violations", "Violations", "Promises that a fault broke.", [part]))
    return _page("what faults it survives", [("Faults", f"{done:,}")], views)


def _operations(rows: Sequence[Mapping[str, Any]]) -> Json:
    return {
        "note": "Named a command: how often an error named the command that helped, and it did.",
        "columns": [_column("Layer", number=False), _column("Operation", number=False),
                    _column("Faults"), _column("Named a command"), _column("Violations"),
                    _column("Seconds")],
        "rows": [
            [row["layer"], row["operation"], row["done"], row["named_a_command"],
             len(row["violations"]), row["seconds"]]
            for row in rows[:_ROWS_MAX]
        ],
    }  # fmt: skip


def bench_page(
    facts: Mapping[str, Any],
    rows: Sequence[Any],
    layouts: Sequence[Any],
    side: Sequence[Any] = (),
) -> Json:
    """The page of `benchmarks/run.py`: each row with its aim and its peers, and side by side."""
    about = [
        ("Date", facts["date"]),
        ("Python", facts["python"]),
        ("SQLite", facts["sqlite"]),
        ("System", f"{facts['system']} {facts['machine']}, {facts['cores']} cores"),
        ("Load", facts["load"]),
        ("Rounds", facts["rounds"]),
        ("Quick", "too small for any figure to mean much" if facts["quick"] else None),
    ]
    table = []
    for row in rows:
        verdict = {None: "", True: "missed", False: "met"}[row["missed"]]
        aim = None if row["aim"] is None else _short(row["aim"])
        table.append([row["work"], _short(row["p50"]), _short(row["p95"]), row["unit"], aim,
                      verdict, None, round(row["noise"], 2), row["runs"]])  # fmt: skip
        table += [
            [f"\u2003beside {peer['name']}", _short(peer["p50"]), _short(peer["p95"]), "", None, "",
             round(peer["ratio"], 2), None, peer["runs"]]
            for peer in row["peers"]
        ]  # fmt: skip
    works = {
        "note": "Ratio: times the time of the peer, above 1 is slower. Noise: a fixed loop beside "
        "the row against the quietest of the run.",
        "columns": [
            _column("Work", number=False), _column("p50"), _column("p95"),
            _column("Unit", number=False), _column("Aim"), _column("", number=False),
            _column("Ratio"), _column("Noise"), _column("Runs"),
        ],
        "rows": table,
    }  # fmt: skip
    views = []
    if rows:
        lead = "What each step takes, beside what others take."
        views.append(_view("works", "Speed", lead, [works]))
    if layouts:
        part = {
            "columns": [
                _column("Policy", number=False), _column("Mode", number=False), _column("Budget"),
                _column("Packs"), _column("Median share, %", bar=True), _column("Naive, %"),
                _column("Cost, %"), _column("Stable kept"),
            ],
            "rows": [
                [one["policy"], one["mode"], one["budget"], one["packs"],
                 _percent(one["share_median"]), _percent(one["naive_median"]),
                 _percent(one["cost"]), one["kept"]]
                for one in layouts
            ],
        }  # fmt: skip
        lead = "What packs repeat of the pack before, and what that costs."
        views.append(_view("layouts", "Prefix layouts", lead, [part]))
    if side:
        views.append(_side_view(side))
    return _page("how fast it is", about, views)


def _side_view(rows: Sequence[Any]) -> Json:
    """Each engine at each size, a part for each work."""
    columns = [
        _column("Engine", number=False), _column("Texts"), _column("p50"), _column("p95"),
        _column("memplane by it"), _column("Runs"),
    ]  # fmt: skip
    parts: list[Json] = [
        {
            "title": f"{work}, {unit}",
            "columns": columns,
            "rows": [
                [one["engine"], one["size"], _short(one["p50"]), _short(one["p95"]), one["ratio"],
                 one["runs"]]
                for one in rows
                if one["work"] == work
            ],
        }
        for work, unit in dict.fromkeys((one["work"], one["unit"]) for one in rows)
    ]  # fmt: skip
    lead = "The same texts and questions, in processor time. Above 1 memplane is slower."
    return _view("side", "Side by side", lead, parts)


def _short(figure: float) -> float:
    return round(figure) if figure >= 1_000 else round(figure, 1 if figure >= 10 else 2)
