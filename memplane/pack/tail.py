"""Area G, the tail: tasks, more cards, last sessions, files, tools, expansions, own sections.

Only here may stand what changes at any time. Of the handles that a request asks to expand the
first is the most important one: it takes what it needs, and where the room ends the later ones are
left out, or end early with the handle that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from memplane.event import bare_project
from memplane.lazy import late
from memplane.pack.block import Entry, Omission
from memplane.pack.head import is_card, merge_cards
from memplane.pack.layout import PARTS, BlockPart, Sheet, is_task_of, own_part
from memplane.pack.request import (
    Expansion,
    LastSession,
    ListedFile,
    Materials,
    PackContext,
    PackQuery,
    View,
)
from memplane.policy import Scoring, SectionBudget
from memplane.projections.files import FILES, FileTouch
from memplane.projections.hotset import HotsetState
from memplane.projections.item import Item, entry_lines, one_line, plain_text, safe_name
from memplane.projections.tasks import EventQuote, TaskRecord
from memplane.recall.score import importance_now, score
from memplane.recall.suppress import Scope
from memplane.tokens import clip

if TYPE_CHECKING:
    from memplane.pack import (
        block as pack_block,
        expansion_depths as pack_expansion_depths,
    )
    from memplane.pack.block import Handle
    from memplane.pack.expansion_depths import Digest, OpenedHandle, Shard, Sight
    from memplane.recall import (
        file_guess as recall_file_guess,
        session_digest as recall_session_digest,
    )
    from memplane.recall.session_digest import StandingNote
else:
    recall_session_digest = late("memplane.recall.session_digest")
    pack_block = late("memplane.pack.block")
    pack_expansion_depths = late("memplane.pack.expansion_depths")
    recall_file_guess = late("memplane.recall.file_guess")


_BY_NAME = {part.name: part for part in PARTS}
_STANDARD: Final = frozenset(part.section for part in PARTS) | {"system_map"}
_OWN_MAX: Final = 50
_LEAST_CARD: Final = 6  # tokens
# Thousandths of the best score: a card that merely shares a word with the query is no answer.
_FLOOR: Final = 500
_LEAST_SESSION: Final = 40  # tokens of a digest: a shorter one says nothing
_NOTES_MAX: Final = 3  # traps that a query names
_WISHES_MAX: Final = 8
_LABEL_TOKENS: Final = 12  # of a session's label and what stands around its lines


def is_own_section(section: SectionBudget) -> bool:
    """Whether the policy added the section: it shows views or kinds that it names."""
    return section.name not in _STANDARD and bool(section.views or section.kinds)


def place_more_cards(
    sheet: Sheet, context: PackContext, _: SectionBudget, query: PackQuery | None
) -> None:
    """Cards without a place in the head, or recorded since: those that answer the query.

    With `query` None or an empty text: the most important ones, by importance as it has faded.
    """
    part, materials, scope = _BY_NAME["more"], context.materials, context.scope
    if sheet.room(part) < _LEAST_CARD:
        return
    text = "" if query is None else query.text
    # All are scored, the placed ones too: how rare a word is does not depend on the head.
    cards = [
        card
        for card in materials.cards
        if card.role != "tool" and is_card(card) and not card.is_by_model
    ]
    if text:
        found = _answering(text, cards, scope.hides, materials.policies.scoring)
    else:
        left = (c for c in cards if not scope.hides(c))
        found = [(_faded_importance(card, materials, scope), card) for card in left]
        found.sort(key=lambda one: (-one[0], -one[1].seq))
    worth = {card.seq: points for points, card in found}
    for card, others in merge_cards([card for _, card in found]):
        same, points = (card, *others), worth[card.seq] if text else 0
        if any(one.seq in sheet.seqs for one in same):
            sheet.omit_all(same, part.section, "duplicate")
        elif not sheet.offer(part, card, score=points, source="projection:cards", others=others):
            sheet.omit_all(others, part.section, "duplicate")


def _answering(
    query: str, cards: Sequence[Item], hides: Callable[[Item], object], scoring: Scoring
) -> list[tuple[int, Item]]:
    """The visible cards that hold words, a tag or the key of the query, with their scores.

    The best first; of those that hold the same, the newer. Cards come in log order.
    """
    hits = score(query, cards, [hides(card) is not None for card in cards], scoring)
    own = [
        (hit.words + hit.tags + hit.key + hit.markers, hit.item)
        for hit in hits
        if hides(hit.item) is None and hit.words + hit.tags + hit.key > 0
    ]
    best = max((points for points, _ in own), default=0)
    own = [(points, card) for points, card in own if points * 1000 >= best * _FLOOR]
    own.sort(key=lambda one: (-one[0], -one[1].importance, -one[1].seq))
    return own


def _faded_importance(card: Item, materials: Materials, scope: Scope) -> int:
    """What time has left of a card's importance, at the request's clock."""
    last, pinned = materials.source.touched(card, upto=scope.as_of)
    half_lives = materials.policies.scoring.half_lives
    return importance_now(card, last, pinned=pinned, now=scope.now, half_lives=half_lives)


def place_sessions(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The last sessions: the digest of each, the newest session first.

    With the summary or plan that was recorded in it; without material for a digest, its last words.
    A summary that a model made stands in the digest's place.
    """
    part, hides = _BY_NAME["sessions"], context.scope.hides
    then = context.then if context.asked is not None else None
    for session in context.materials.source.last_sessions() if then is None else then:
        key = f"session/{session.id}/summary"
        made = (item for item in session.items if item.key == key and not hides(item))
        by_model = next((item for item in made if item.is_by_model), None)
        placed = by_model is not None and sheet.offer(part, by_model, source="projection:sessions")
        told = not placed and _place_session(sheet, context, session)
        for item in session.items:
            generated = item.key == key
            if told and generated:  # nor does the window show it
                sheet.omit_all([item], part.section, "duplicate")
                continue
            if told and item.kind == "message":
                continue
            if item.seq not in sheet.seqs and not hides(item):
                # Of a long answer the first third is enough.
                tier = 0 if item.kind == "summary" else 1
                sheet.offer(part, item, tier=tier, source="projection:sessions")


def _place_session(sheet: Sheet, context: PackContext, session: LastSession) -> bool:
    """Place the digest of a session; False where there is none, or no room for it."""
    part, hides, printer = _BY_NAME["sessions"], context.scope.hides, sheet.printer
    room = sheet.room(part)
    most = min(room - _LABEL_TOKENS, context.materials.policies.plane.session_summary_tokens_max)
    if session.parts is None or most < _LEAST_SESSION:
        return False
    tasks = frozenset(id_ for one in sheet.placed.get("tasks", ()) for id_ in one.parts)

    def sees(quote: EventQuote) -> bool:
        """Whether the reader sees it, and the block has not shown it as a decision or a plan."""
        if quote.id in session.gone or hides(quote):
            return False
        plain = quote.kind == "decision" and quote.key is None
        shown = plain and quote.seq in sheet.seqs
        return not shown and not (quote.kind == "task" and quote.id in tasks)

    made = recall_session_digest.session_digest(
        session.parts,
        sees,
        counter=printer.counter,
        tokens_max=most,
        redact=printer.redact,
    )
    if made is None:
        return False
    label, rest = recall_session_digest.session_label(made.day, made.text)
    text = entry_lines(safe_name(printer.redact(label)), printer.redact(rest))
    tokens = printer.counter.count(text)
    if tokens > room or not sheet.needs.take_text(text):
        return False
    entry = Entry(
        part.section, part.place, text, tokens, 0, (), made.refs, "projection:digests", part.area
    )
    sheet.put(part, entry)
    return True


def place_wishes(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """What users want from now on, the newest first; not what a task above is called by."""
    part = _BY_NAME["wishes"]
    if sheet.room(part) >= _LEAST_CARD:
        wishes = context.materials.source.wishes(context.scope)[:_WISHES_MAX]
        told = [one for one in wishes if not is_task_of(sheet, one.text)]
        _place_notes(sheet, part, told, "preference")


def place_traps(
    sheet: Sheet, context: PackContext, _: SectionBudget, query: PackQuery | None
) -> None:
    """The traps whose file, command or rule the query names; at a tool's call what that names."""
    part = _BY_NAME["traps"]
    if sheet.room(part) < _LEAST_CARD:
        return
    traps = context.traps
    if query is not None and query.text:
        traps = tuple(context.materials.source.traps(context.scope))
        traps = tuple(recall_session_digest.named_in(traps, query.text)) if traps else ()
    _place_notes(sheet, part, traps[:_NOTES_MAX], "note")


def _place_notes(sheet: Sheet, part: BlockPart, notes: Sequence[StandingNote], label: str) -> None:
    printer = sheet.printer
    for note in notes:
        text = entry_lines(f"{label} {note.label}", printer.redact(note.text))
        tokens = printer.counter.count(text)
        if tokens > sheet.room(part) or not sheet.needs.take_text(text):
            continue
        source = "projection:digests"
        entry = Entry(part.section, part.place, text, tokens, 0, (), note.refs, source, part.area)
        sheet.put(part, entry)


def place_own(sheet: Sheet, context: PackContext, section: SectionBudget) -> None:
    """A section of the policy's own: the newest events of its kinds."""
    if not section.kinds:
        return
    part, materials, hides = own_part(section.name), context.materials, context.scope.hides
    pool = {item.seq: item for item in (*materials.decisions, *materials.cards)}
    pool.update(materials.hotset.items)
    taken = 0
    for seq in sorted(pool, reverse=True):
        item = pool[seq]
        if item.kind in section.kinds and seq not in sheet.seqs and not hides(item):
            taken += sheet.offer(part, item)
            if taken == _OWN_MAX:
                return


# task_state: the active task in a paragraph, each other open one in a line.

_TASKS: Final = _BY_NAME["tasks"]
_OTHERS_MAX: Final = 20


def place_tasks(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The request's task first, else the active one of its session; then the others, newest first.

    A request that names its task sees no other.
    """
    table = context.materials.tasks
    mine = context.task or table.active_for(context.session)
    task = None if mine is None else table.get(mine)
    sight = pack_expansion_depths.Sight(context.scope.hides, sheet.printer, sheet.seqs)
    if task is not None:
        _place_paragraph(sheet, task, sight)
    if context.task is not None:
        return
    others = [
        other
        for other in table.open()
        if other.id != mine and pack_expansion_depths.is_seen(other, sight)
    ]
    for other in others[:_OTHERS_MAX]:
        digest = pack_expansion_depths.task_sentence(other, sight, max(0, sheet.room(_TASKS)))
        if digest is not None:
            _put_digest(sheet, digest)
        elif other.goal is not None and sight.sees(other.goal):
            _omit_quote(sheet, other.goal)


def _place_paragraph(sheet: Sheet, task: TaskRecord, sight: Sight) -> None:
    room = min(sheet.room(_TASKS), pack_expansion_depths.PARAGRAPH_TOKENS_MAX)
    digest = pack_expansion_depths.task_paragraph(task, sight, room, active=True)
    if digest is None:
        if task.goal is not None and sight.sees(task.goal):
            _omit_quote(sheet, task.goal)
        return
    _put_digest(sheet, digest)
    for quote in digest.left:
        _omit_quote(sheet, quote)


def _put_digest(sheet: Sheet, digest: Digest) -> None:
    sheet.put(
        _TASKS,
        Entry(
            _TASKS.section,
            _TASKS.place,
            digest.text,
            digest.tokens,
            0,
            digest.events,
            digest.parts,
            "projection:tasks",
            _TASKS.area,
        ),
    )
    for seq in digest.whole:
        sheet.seqs.add(seq)
        sheet.whole.add(seq)
        sheet.omitted.pop(seq, None)


def _omit_quote(sheet: Sheet, quote: EventQuote) -> None:
    item = Item({**quote.row(), "text": quote.text})
    tokens = sheet.counter.count(quote.text)
    sheet.omit(item, _TASKS.section, tokens, "budget", 0, max(1, tokens - sheet.room(_TASKS)))


# tool_state: the files of the session, then the last error and call of each tool.

_FILES: Final = _BY_NAME["files"]
_TOOLS: Final = _BY_NAME["tools"]
_FILES_SHOWN: Final = 10
_LEAST_FILE: Final = 4  # tokens of the shortest line that names a file


def listed_files(context: PackContext, query: str) -> tuple[ListedFile, ...]:
    """The session's own files, the warmest first; before its first touch those it may need.

    Without a session: the files of all, the newest touch first.
    """
    materials, scope = context.materials, context.scope
    state = materials.files
    if state is None:
        return tuple(_own_files(materials.hotset, context.session, scope))
    texts = naming_texts(materials.hotset, materials.decisions, scope)
    branch = state.branch_of(context.session, scope.hides)
    found = recall_file_guess.guess_files(
        state, scope, query=query, branch=branch, named=texts, limit=_FILES_SHOWN
    )
    return tuple(
        ListedFile(one.path, one.touch.episode.branch, one.touch.id, "projection:files")
        for one in found
    )


def _own_files(hotset: HotsetState, session: str | None, scope: Scope) -> Iterator[ListedFile]:
    """The files that the session touched, or all sessions where it is None, as far as visible."""
    if session is not None:
        table = hotset.files.get(session)
        found = table.warmest() if table is not None else []
    else:
        newest: dict[str, FileTouch] = {}
        for table in hotset.files.values():
            for path, touch in table.touches.items():
                if path not in newest or touch.seq > newest[path].seq:
                    newest[path] = touch
        found = sorted(newest.items(), key=lambda one: -one[1].seq)[: 2 * FILES]
    for path, touch in found:
        item = hotset.items[touch.seq]
        if not scope.hides(item):
            yield ListedFile(path, touch.branch, item.id, "projection:hotset")


def naming_texts(hotset: HotsetState, decisions: Sequence[Item], scope: Scope) -> Iterator[str]:
    """Texts that may name a file: the last error of each tool, then decisions, newest first."""
    errors = (hotset.items[error] for _, error in reversed(hotset.tools.values()) if error)
    for item in (*errors, *reversed(decisions)):
        if not scope.hides(item):
            yield item.text


def place_files(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The first of the listed files that fit, each once.

    In a parted plane each names its project: paths are relative to that project's root.
    """
    if sheet.room(_FILES) < _LEAST_FILE:
        return
    project = context.scope.project
    label = "file" if project is None else f"file of {bare_project(project)}"
    for file in context.files[:_FILES_SHOWN]:
        _place_file(sheet, file, context.materials, label)


def _place_file(sheet: Sheet, file: ListedFile, materials: Materials, label: str) -> None:
    named = f"{file.path} ({file.branch})" if file.branch else file.path
    printer = sheet.printer

    def made() -> tuple[str, int, bool]:
        line = entry_lines(label, printer.redact(one_line(named)))
        return line, printer.counter.count(line), True

    line, tokens, _ = materials.lines.form(f"{label} {named}", 0, printer.stamp, made)
    placed = sheet.placed.get(_FILES.name, ())
    if tokens > sheet.room(_FILES) or any(entry.text == line for entry in placed):
        return
    part = _FILES
    # seq 0: naming a file does not render the event that touched it.
    entry = Entry(part.section, part.place, line, tokens, 0, (), (file.id,), file.source, part.area)
    sheet.put(part, entry)


def place_tools(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The last error and the last call of each tool, the tool used last first."""
    hotset, hides = context.materials.hotset, context.scope.hides
    for call, error in reversed(hotset.tools.values()):
        for seq in (error, call):
            if not seq:
                continue
            item = hotset.items[seq]
            if item.seq not in sheet.seqs and not hides(item):
                sheet.offer(_TOOLS, item, tier=1)


_PART: Final = next(part for part in PARTS if part.name == "expansions")

_TRIES: Final = 4  # to leave room for the handle that goes on, whose seq has more digits or fewer


def place_expansions(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """What the request's handles opened, in the order asked for, each cut where the room ends."""
    scope = context.scope
    for expansion in context.materials.expansions:
        if not _needed(sheet, expansion):
            name = expansion.handle if not isinstance(expansion, View) else _view_handle(expansion)
            sheet.views_omitted.append(Omission(str(name), 0, _PART.section, 0, "limit", 0, 0))
        elif isinstance(expansion, Expansion):
            _place_event(sheet, expansion, scope)
        elif isinstance(expansion, View):
            _place_view(sheet, expansion)
        else:
            _place_shard(sheet, expansion, scope)


def _needed(sheet: Sheet, expansion: Expansion | OpenedHandle | View) -> bool:
    """Count what opening it takes; False where that passes a limit."""
    if isinstance(
        expansion, pack_expansion_depths.OpenedHandle
    ):  # of what events said, which counts as it is placed
        return sheet.needs.left > 0
    is_file = isinstance(expansion, View) or expansion.item.kind == "artifact"
    return sheet.needs.take_text(expansion.text, own_file=is_file)


def _view_handle(view: View) -> Handle:
    return pack_block.Handle("views", view.path)


def _place_event(sheet: Sheet, expansion: Expansion, scope: Scope) -> None:
    item = expansion.item
    reason = scope.hides(item)
    if reason is not None and not (expansion.lost and reason == expansion.lost):
        sheet.hidden[item.seq] = reason
        return
    if expansion.lost:
        lost = Omission(expansion.handle, item.seq, _PART.section, 0, expansion.lost, 0, 0)
        sheet.views_omitted.append(lost)
        return
    # A handle shows the rest of what is in the block in part; only a whole text is not repeated.
    # The text of an artifact's event is not the artifact's text.
    repeated = item.seq in sheet.whole and item.kind != "artifact"
    if repeated or not expansion.text.strip():
        return
    room = sheet.room(_PART)
    handle, start = pack_block.parse_handle(expansion.handle), expansion.start

    def on(characters: int) -> str:
        return str(handle.behind(start + characters))

    form = sheet.marked(_PART, item).expanded(
        expansion.text, room, sheet.printer, on=on, whole=expansion.whole, ends=expansion.ends
    )
    if form is None:
        tokens = sheet.counter.count(expansion.text)
        _give_up(sheet, expansion.handle, tokens, tokens - room, item.seq)
        return
    lines, tokens, whole = form
    ids = (item.id,)
    sheet.put(
        _PART,
        Entry(
            _PART.section,
            _PART.place,
            lines,
            tokens,
            0,
            ids if whole else (),
            () if whole else ids,
            "event",
            _PART.area,
            item.seq,
        ),
    )


def _place_view(sheet: Sheet, view: View) -> None:
    """The view as quoted data: nothing in it can end the quotation."""
    count, room = sheet.counter.count, sheet.room(_PART)
    handle = _view_handle(view)
    if view.start and not view.text:
        name = str(handle.behind(view.start))
        lost = Omission(name, 0, _PART.section, 0, "past_end", 0, 0)
        sheet.views_omitted.append(lost)
        return
    head = f"view {safe_name(view.path)}"
    lines = entry_lines(head, plain_text(view.text))
    tokens = count(lines)
    if tokens > room:
        made = clip(
            sheet.counter,
            view.text,
            room,
            lambda kept: entry_lines(
                head, plain_text(kept), f"\n… {handle.behind(view.start + len(kept))}"
            ),
            around=tokens - count(view.text),
            ended=_to_line,
        )
        if made is None:
            _give_up(sheet, str(handle.behind(view.start)), tokens, tokens - room)
            return
        lines, tokens = made
    source = f"view:{view.path}@{view.sha256}"
    sheet.put(
        _PART, Entry(_PART.section, _PART.place, lines, tokens, 0, (), (), source, _PART.area)
    )


def _to_line(text: str) -> str:
    kept = text[: text.rfind("\n") + 1]
    return kept if kept.strip() else ""


def _place_shard(sheet: Sheet, opened: OpenedHandle, scope: Scope) -> None:
    sight = pack_expansion_depths.Sight(scope.hides, sheet.printer, sheet.whole)
    room = sheet.room(_PART)
    made, mark = _fitted(sheet, opened, sight, room)
    sheet.hidden.update(made.hidden)
    if not made.text:
        least = _least(opened, sight)
        if least:  # else there is nothing that this request may see, or all of it stands here
            _give_up(sheet, str(opened.handle), least, least - room)
        return
    if not sheet.needs.take_text(made.text):
        lost = Omission(str(opened.handle), 0, _PART.section, made.tokens, "limit", 0, 0)
        sheet.views_omitted.append(lost)
        return
    tokens = made.tokens + sheet.counter.count(mark)
    sheet.put(
        _PART,
        Entry(
            _PART.section,
            _PART.place,
            f"{made.text}{mark}",
            tokens,
            0,
            tuple(made.events),
            made.parts,
            opened.source,
            _PART.area,
        ),
    )
    if made.next is not None:
        sheet.views_omitted.append(Omission(str(made.next), 0, _PART.section, 0, "cut", 0, 0))
    for seq in made.events.values():
        sheet.seqs.add(seq)
        sheet.whole.add(seq)
        sheet.omitted.pop(seq, None)
        sheet.passed.pop(seq, None)


def _fitted(sheet: Sheet, opened: OpenedHandle, sight: Sight, room: int) -> tuple[Shard, str]:
    """What the handle opens and the line with the handle that goes on; both within the room."""
    count = sheet.counter.count
    marked, whole = partial(sheet.marked, _PART), sheet.whole
    made, spare = (
        pack_expansion_depths.shard(opened, sight, room, whole=whole, marked=marked, inside=True),
        0,
    )
    for _ in range(_TRIES):
        mark = "" if made.next is None else f" … {made.next}\n"
        over = made.tokens + count(mark) - room
        if over <= 0 or not made.text:
            return made, mark
        spare += max(over, count(mark) - spare)
        made = pack_expansion_depths.shard(
            opened, sight, room - spare, whole=whole, marked=marked, inside=True
        )
    return made, ""


def _least(opened: OpenedHandle, sight: Sight) -> int:
    """Tokens of the shortest thing to say of it; 0 where there is nothing."""
    handle = opened.handle
    shortest = opened._replace(handle=handle if handle.start else handle.going_on(0, 0))
    elsewhere = frozenset(sight.elsewhere)
    return pack_expansion_depths.shard(
        shortest, sight, pack_expansion_depths.NO_END, whole=elsewhere, inside=True
    ).tokens


def _give_up(sheet: Sheet, handle: str, tokens: int, short_by: int, seq: int = 0) -> None:
    omission = Omission(handle, seq, _PART.section, tokens, "budget", 0, max(1, short_by))
    sheet.views_omitted.append(omission)
