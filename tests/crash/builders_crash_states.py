"""What a disk may hold when the lights go out, worked out from the calls that were made.

A `Recording` runs real code with `syscalls.Passing` around it and keeps the trace: calls, and
`ack` marks where something was promised. A `World` replays the trace call by call. Between two of
them the disk surely has what was synced: the bytes of a file at its last sync, the names of a
folder at the folder's last sync. Of all the rest it may have anything: nothing, all, the first of
several calls, one cut at a byte or a sector, zeros where bytes should be, sectors out of order, a
rename without the file it renamed or the other way round. What a failed sync was for is lost, and
later syncs do not bring it back.
"""

# Paths are strings here: a tree is materialised thousands of times a minute.
# ruff: noqa: PTH102, PTH103, PTH116, PTH118, PTH123
import os
import shutil
from contextlib import contextmanager
from typing import Any, NamedTuple

from fakes_syscalls import Call, Passing

SECTOR = 512


class Op(NamedTuple):
    """A step of a trace: `make`, `mkdir`, `write`, `cut`, `sync`, `lost`, `name`, `gone`, `ack`."""

    kind: str
    path: str = ""
    node: int = 0
    at: int = 0
    data: Any = b""
    source: str = ""


class Recording:
    """The trace of what runs inside `with recording:`. `failing`: the numbers of syncs that fail."""

    def __init__(self, folder, failing=()):
        self.folder, self.failing = str(folder), set(failing)
        self.trace = []
        self.syncs = 0
        self._nodes = {}  # by (device, inode), while a descriptor keeps the number from another
        self._pins = []
        self._passing = Passing(folder, self._handle)

    def ack(self, promised):
        """Mark that from here on this holds."""
        self.trace.append(Op("ack", data=promised))

    @contextmanager
    def running(self):
        base = self._base()
        self.trace.insert(0, Op("base", data=base))
        with self._passing:
            try:
                yield self
            finally:
                for fd in self._pins:
                    self._passing.real["close"](fd)

    def _base(self):
        """What was there before, by path: all of it durable. Folders are None."""
        found = {}
        for root, folders, files in os.walk(self.folder):
            at = os.path.relpath(root, self.folder)
            for name in folders:
                found[os.path.normpath(os.path.join(at, name))] = None
            for name in files:
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    found[os.path.normpath(os.path.join(at, name))] = file.read()
        return found

    def _handle(self, call: Call, run):
        if call.name == "fsync":
            return self._sync(call)
        result = run()
        add = self.trace.append
        if call.name == "open":
            if call.new:
                add(Op("make", call.path))
            elif call.flags & os.O_TRUNC:
                add(Op("cut", call.path, self._node(call.path)))
            self._opened(result, call.path)
        elif call.name == "write":
            data = call.data[:result]
            add(Op("write", call.path, self._of(call.fd), call.at, data))
        elif call.name == "ftruncate":
            add(Op("cut", call.path, self._of(call.fd), call.at))
        elif call.name in ("rename", "link"):
            add(Op("name", call.path, source=call.source, at=int(call.name == "rename")))
        elif call.name == "mkdir":
            add(Op("mkdir", call.path))
        else:
            add(Op("gone", call.path))
        return result

    def _sync(self, call):
        self.syncs += 1
        if self.syncs in self.failing:
            self.trace.append(Op("lost", call.path, self._of(call.fd)))
            raise OSError(5, os.strerror(5))
        # Nothing is waited for: what the disk has is the world's business.
        self.trace.append(Op("sync", call.path, self._of(call.fd)))

    def _opened(self, fd, path):
        """Give the open file a number by which the world knows it."""
        found = os.fstat(fd)
        key = (found.st_dev, found.st_ino)
        if key not in self._nodes:
            self._pins.append(os.dup(fd))
            self._nodes[key] = len(self._nodes) + 1
        self.trace.append(Op("open", path, self._nodes[key]))

    def _of(self, fd):
        found = os.fstat(fd)
        return self._nodes.get((found.st_dev, found.st_ino), 0)

    def _node(self, path):
        found = os.stat(os.path.join(self.folder, path))
        return self._nodes.get((found.st_dev, found.st_ino), 0)


class File:
    """The bytes that are surely there, and the calls since."""

    def __init__(self, data=b""):
        self.durable, self.pending = data, []

    def live(self):
        return applied(self.durable, self.pending)

    def sync(self):
        self.durable, self.pending = self.live(), []

    def lose(self):
        """A sync failed: the pages count as clean, and their bytes never arrive."""
        zeroed, size = [], len(self.durable)
        for op in self.pending:
            if op.kind == "cut":
                zeroed.append(op)
                continue
            end = op.at + len(op.data)
            if end > size:
                start = max(size, op.at)
                zeroed.append(op._replace(at=start, data=bytes(end - start)))
                size = end
        self.pending = zeroed

    def content(self, rng, mode):
        """The bytes as a crash may leave them."""
        return applied(self.durable, survivors(self.pending, rng, mode))


class Folder:
    """The names that are surely there; `live` has those that the program sees."""

    def __init__(self):
        self.durable, self.live = {}, {}


class Change(NamedTuple):
    """Names that change together, and surely so from the next sync of `folder` on."""

    names: list
    folder: Any


def applied(data, ops):
    """The bytes with those calls on top."""
    if not ops:
        return data
    made = bytearray(data)
    for op in ops:
        if op.kind == "cut":
            if len(made) > op.at:
                del made[op.at :]
            else:
                made += bytes(op.at - len(made))
        else:
            if op.at > len(made):
                made += bytes(op.at - len(made))
            made[op.at : op.at + len(op.data)] = op.data
    return bytes(made)


MODES = ("none", "all", "all", "first", "cut", "cut", "sector", "zeros", "subset", "shuffled")


def survivors(ops, rng, mode):
    """The calls of a file that made it to the disk, the last one perhaps in part."""
    if not ops or mode == "all":
        return ops
    if mode in ("none", "subset", "shuffled"):
        parts = [part for op in ops for part in (sectors(op) if mode == "shuffled" else [op])]
        return [part for part in parts if mode != "none" and rng.random() < 0.5]
    return first_of(ops, rng, mode)


def first_of(ops, rng, mode):
    """The first calls, and of the next one nothing, zeros, or the beginning."""
    count = rng.randrange(len(ops))
    kept, last = list(ops[:count]), ops[count]
    if mode == "first" or last.kind == "cut":
        return kept
    if mode == "zeros":
        return [*kept, last._replace(data=bytes(len(last.data)))]
    size = rng.randrange(len(last.data) + 1)
    if mode == "sector":
        size = max(0, (last.at + size) // SECTOR * SECTOR - last.at)
    if rng.random() < 0.3:
        # The size arrived, not all of the bytes.
        return [*kept, last._replace(data=last.data[:size] + bytes(len(last.data) - size))]
    return [*kept, last._replace(data=last.data[:size])]


def sectors(op):
    """A write by the sectors that it touches."""
    if op.kind == "cut":
        return [op]
    parts, start = [], 0
    while start < len(op.data):
        end = min(len(op.data), (op.at + start) // SECTOR * SECTOR + SECTOR - op.at)
        parts.append(op._replace(at=op.at + start, data=op.data[start:end]))
        start = end
    return parts


class World:
    """The disk below a folder, a trace's step at a time."""

    def __init__(self, base):
        self.root = Folder()
        self.changes = []
        self.by_number = {}
        for path, data in sorted(base.items()):
            node = Folder() if data is None else File(data)
            folder, name = self._place(path)
            folder.live[name] = folder.durable[name] = node

    def step(self, op):
        """Take one step of the trace."""
        if op.kind == "write":
            self.by_number[op.node].pending.append(op)
        elif op.kind == "cut":
            node = self.by_number.get(op.node) or self._at(op.path)
            node.pending.append(op)
        elif op.kind == "open":
            self.by_number.setdefault(op.node, self._at(op.path))
        elif op.kind in ("sync", "lost"):
            self._synced(op)
        elif op.kind in ("make", "mkdir"):
            self._named(op.path, File() if op.kind == "make" else Folder())
        elif op.kind == "gone":
            self._named(op.path, None)
        elif op.kind == "name":
            folder, name = self._place(op.source)
            node = folder.live[name]
            self._named(op.path, node, (folder, name) if op.at else None)

    def pending(self):
        """Whether anything could be lost now."""
        files = any(node.pending for node in self._files())
        return bool(self.changes) or files

    def crash(self, rng):
        """One of the trees that may be found afterwards: bytes by path, None for a folder."""
        return self._tree(self._chosen(rng), rng)

    def live(self):
        """The tree as the program sees it."""
        return tree_of(self.root, lambda folder: folder.live, lambda file: file.live())

    def durable(self):
        """What is surely there, and nothing else."""
        return tree_of(self.root, lambda folder: folder.durable, lambda file: file.durable)

    def _synced(self, op):
        node = self.by_number.get(op.node) if op.node else self._at(op.path)
        if isinstance(node, File):
            node.sync() if op.kind == "sync" else node.lose()
            return
        if op.kind == "lost":
            return
        for change in self.changes:
            if change.folder is node:
                for folder, name, target in change.names:
                    named(folder.durable, name, target)
        self.changes = [change for change in self.changes if change.folder is not node]

    def _named(self, path, node, source=None):
        folder, name = self._place(path)
        names = [(*source, None)] if source is not None else []
        names.append((folder, name, node))
        for where, what, target in names:
            named(where.live, what, target)
        self.changes.append(Change(names, folder))

    def _chosen(self, rng):
        """The changes of names that made it."""
        mode = rng.choice(("none", "all", "all", "first", "first", "subset"))
        if mode == "all":
            return self.changes
        if mode == "none":
            return []
        if mode == "first":
            return self.changes[: rng.randrange(len(self.changes) + 1)]
        return [change for change in self.changes if rng.random() < 0.5]

    def _tree(self, chosen, rng):
        names = {}
        for change in chosen:
            for folder, name, target in change.names:
                names.setdefault(id(folder), {})[name] = target
        usual = rng.choice((*MODES, "each"))
        return tree_of(
            self.root,
            lambda folder: {**folder.durable, **names.get(id(folder), {})},
            lambda file: file.content(rng, rng.choice(MODES) if usual == "each" else usual),
        )

    def _files(self):
        return [node for node in self.by_number.values() if isinstance(node, File)]

    def _place(self, path):
        *folders, name = path.split("/")
        folder = self.root
        for each in folders:
            folder = folder.live[each]
        return folder, name

    def _at(self, path):
        if not path:
            return self.root
        folder, name = self._place(path)
        return folder.live[name]


def tree_of(root, entries, content):
    """The bytes of all files by path, None for a folder; a name without a file is none."""
    tree = {}

    def walk(folder, prefix):
        for name, node in entries(folder).items():
            if isinstance(node, Folder):
                tree[f"{prefix}{name}"] = None
                walk(node, f"{prefix}{name}/")
            elif node is not None:
                tree[f"{prefix}{name}"] = content(node)

    walk(root, "")
    return tree


def named(entries, name, node):
    """Give a name to a file, or take it away."""
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def put(tree, folder):
    """Make the folder hold this tree and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, 0o700)
    for path, data in sorted(tree.items()):
        target = os.path.join(folder, path)
        if data is None:
            os.mkdir(target, 0o700)
        else:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(fd, data)
            os.close(fd)


def states(trace, rng, each):
    """Yield (promised so far, tree): up to `each` different trees after every step of the trace.

    The last step is followed by more of them, and by the tree of a process that was killed.
    """
    world = World(trace[0].data)
    promised = []
    for at, op in enumerate(trace[1:], 2):
        if op.kind == "ack":
            promised = [*promised, op.data]
        else:
            world.step(op)
        if not world.pending():
            continue
        seen = set()
        for _ in range(each if at < len(trace) else each * 4):
            tree = world.crash(rng)
            key = hash(
                tuple(sorted((path, data) for path, data in tree.items() if data is not None))
            )
            if key not in seen:
                seen.add(key)
                yield promised, tree
