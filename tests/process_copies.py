"""Starts `python -m memplane`, and scripts that use it, as copies of a process that has imported it.

A fresh interpreter spends half a second or more on imports; a copy takes some hundredths of one,
and is a process of its own all the same: its pipes, locks, signals, clock and end are its own, and
it is a child of the process that started it. `popen_of` gives what stands in for `subprocess.Popen`: whatever
is not memplane, or depends on how an interpreter starts, is started as ever.

Run as a script, this is the process that is copied: `python process_copies.py SOCKET`.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import io
import json
import os
import pickle
import pkgutil
import platform
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path
from types import MappingProxyType

import typer

import memplane
from memplane import policy
from memplane.context import watched_files
from memplane.home import Assets, schema

MODULES = ("memplane", "memplane.cli.trials")
PACKAGE = Path(memplane.__file__)
ROOT = PACKAGE.parents[1]
# What lies at the top of the repository, and stands in the place of nothing that is imported.
OURS = (PACKAGE, ROOT / "hatch_build.py")
SCRIPTS = tuple(f"{ROOT}/{folder}/" for folder in ("benchmarks", "examples", "tests", "tools"))
HEAVY = ("jsonschema", "mcp", "numpy", "orjson", "rich.console", "snowballstemmer", "typer", "yaml")
INHERITED = (signal.SIGHUP, signal.SIGTERM)  # a process begins with these ignored or not
SET_CHILD_SUBREAPER = 36  # of prctl(2)
CLONE_PARENT = 0x8000  # of clone(2), whose number is another one on each machine
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
# What an interpreter reads as it starts: where one of these differs, a copy would not be the same.
AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC", "OMP_", "OPENBLAS_")
SAME = (
    ("LANG", "C.UTF-8"), ("PYTHONUNBUFFERED", "1"), ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONPATH", str(ROOT)),  # an editable install is found there anyway
)  # fmt: skip


class Original:
    """The process that is copied, and how to ask it for a copy; `under` words that start it."""

    def __init__(self, under=()):
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        # A copy has none of its threads, and would wait for them when it is itself copied.
        alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [*under, sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={**os.environ, **alone},
            )  # fmt: skip
        self._at_start, self._pid = at_start(os.environ), os.getpid()
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def can_be(self, cwd, env):
        """Whether a copy would be the same as a process that is started there."""
        if os.getpid() != self._pid:  # a fork of the tests: it would not be the parent
            return False
        if at_start(os.environ if env is None else env) != self._at_start:
            return False
        if cwd is None:
            return True
        # `-m` would import what lies in the folder before what is installed.
        folder = Path(cwd)
        found = (one for kind in ("*.py", "*.so", "*/__init__.py") for one in folder.glob(kind))
        return all(one in OURS for one in found)

    def copied(self, request, files):
        """Start a copy; its process id. It is a child of this process."""
        data = pickle.dumps({**request, "parent": os.getpid()})
        with self._lock:
            self._prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._socket, [len(data).to_bytes(8, "little")], files)
                self._socket.sendall(data)
                return int.from_bytes(exactly(self._socket, 8), "little")
            finally:
                self._prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._process.wait(60)


def at_start(env):
    pairs = ((os.fsdecode(name), os.fsdecode(value)) for name, value in env.items())
    return {one for one in pairs if one[0].startswith(AT_START) and one[1] and one not in SAME}


def exactly(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


class Copies:
    """Starts the original when a copy is first asked for; `wanted` says whether any is.

    `under`: words that start it and look on, as those of strace(1): at it and at all its copies.
    """

    def __init__(self, under=()):
        self.wanted, self._under = True, under
        self._original = None

    def original_for(self, words, cwd, env):
        """What can be copied to run these words; None where they are to be started as ever."""
        if not self.wanted or len(words) < 2 or words[0] != sys.executable:
            return None
        script = words[1].endswith(".py") and str(Path(cwd, words[1])).startswith(SCRIPTS)
        module = words[1] == "-m" and words[2:3] and words[2] in MODULES
        if not (script or module) or not sys.platform.startswith("linux"):
            return None
        self._original = self._original or Original(self._under)
        return self._original if self._original.can_be(cwd if module else None, env) else None

    def close(self):
        if self._original is not None:
            self._original.close()


def popen_of(copies):
    """The class to start processes with."""

    class Popen(subprocess.Popen):
        def _execute_child(
            self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest
        ):
            ends = rest[3:9]  # of pipes: for the child and for us, of stdin, stdout and stderr
            files = [at if one == -1 else one for at, one in enumerate((ends[0], *ends[3::2]))]
            more = (executable, preexec_fn, close_fds, tuple(pass_fds), rest[2], *rest[10:14])
            if more == (None, None, True, (), False, None, None, None, -1):
                one = isinstance(args, str | bytes | os.PathLike)
                words = [os.fsdecode(word) for word in ([args] if one else args)]
                try:
                    where = str(Path.cwd()) if cwd is None else os.fsdecode(cwd)
                except FileNotFoundError:  # the folder is gone
                    where = None
                original = where and copies.original_for(words, where, env)
                if original:
                    request = {
                        "words": words, "cwd": where, "new_session": rest[14],
                        "env": dict(os.environ if env is None else env),
                        "ignored": [n for n in INHERITED if signal.getsignal(n) is signal.SIG_IGN],
                    }  # fmt: skip
                    try:
                        self.pid = original.copied(request, files)
                        self._child_created = True
                    finally:
                        self._close_pipe_fds(*ends)
                    return
            super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest
            )

    return Popen


NONE = MappingProxyType({})


def nothing(*_):
    return None


def read_once(patch):
    """The checked policies, the schemas and the table of commands: a process makes each once.

    `patch` sets an attribute of a module. All are functions of what is given here; policies of
    other defaults or schemas than memplane's own are read each time.
    """
    read, load, made = policy.documents, policy.load_policies, typer.main.get_command
    known, loaded = {}, {}

    def documents(files, *, defaults, schemas, overrides=NONE):
        def anew():
            return read(files, defaults=defaults, schemas=schemas, overrides=overrides)

        if not (isinstance(defaults, Assets) and isinstance(schemas, Assets)):
            return anew()
        key = (frozenset(files.items()), frozenset(overrides.items()))
        if key not in known:
            known[key] = pickle.dumps(anew())
        return pickle.loads(known[key])

    def load_policies(
        files, *, defaults, schemas, version="", overrides=NONE, cached=nothing, keep=nothing
    ):
        def anew(cached, keep):
            more = {"version": version, "overrides": overrides, "cached": cached, "keep": keep}
            return load(files, defaults=defaults, schemas=schemas, **more)

        if not (isinstance(defaults, Assets) and isinstance(schemas, Assets)):
            return anew(cached, keep)
        key = (frozenset(files.items()), frozenset(overrides.items()), version)
        if key not in loaded:
            forms = []  # the parsed form, wherever it came from
            made = anew(lambda _: None, lambda *form: forms.append(form))
            loaded[key] = (*forms[0], made)
        name, form, policies = loaded[key]
        there = cached(name)
        if there is None:
            keep(name, form)
        return policies if there in (None, form) else anew(lambda _: there, keep)

    @functools.cache
    def get_command(app, _):
        return made(app)

    def modules():
        return frozenset(name for name in sys.modules if name.startswith("memplane.cli."))

    patch(policy, "documents", documents)
    patch(policy, "load_policies", load_policies)
    patch(watched_files, "schema", functools.cache(schema))
    patch(typer.main, "get_command", lambda app: get_command(app, modules()))


# In the process that is copied.


def import_everything():
    """Import whatever a command may import, so that forks of this process need not."""
    names = [one.name for one in pkgutil.walk_packages(memplane.__path__, "memplane.")]
    for name in [*HEAVY, *names]:
        if name not in ("memplane.__main__", "memplane.pytest_plugin", "memplane.cli.trials"):
            with contextlib.suppress(ImportError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)


def warm():
    """Use a plane once: its policies are those of most, tables and patterns are read when needed."""
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        with memplane.init(Path(folder) / "plane", durability="os") as plane:
            plane.record("Herons nest in trees", role="user", session="s")
            plane.pack("herons", session="s", save_report=True)
            plane.search("herons")
    del os.environ["XDG_STATE_HOME"]
    os.environ |= {} if before is None else {"XDG_STATE_HOME": before}
    assert threading.active_count() == 1  # or no copy would be whole


def warm_hook():
    """Answer one prompt as a hook does: what only hooks import and compile is there for its copies."""
    from memplane.hook.run import Openers, run_hook
    from memplane.wiring import open_found, open_light

    usual = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM)}
    places = [os.dup(number) for number in (0, 1)]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        home = Path(folder) / ".memplane"
        state = {"HOME": folder, "XDG_STATE_HOME": folder, "MEMPLANE_HOME": str(home)}
        before = {name: os.environ.get(name) for name in state}
        os.environ |= state
        with memplane.init(home, durability="os") as plane:
            plane.record("We keep the masts of spruce in the shed", kind="decision", key="masts")
            plane.upkeep.index()
        for event in ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"):
            given = {
                "hook_event_name": event, "session_id": "s", "cwd": str(Path.cwd()), "source": "startup",
                "prompt": "where do we keep the masts of spruce?", "tool_name": "Read",
                "tool_use_id": "t", "tool_input": {"file_path": "a.py"}, "tool_response": {},
            }  # fmt: skip
            said.seek(0)
            said.truncate()
            said.write(json.dumps(given).encode())
            said.seek(0)
            os.dup2(said.fileno(), 0)
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
                os.dup2(nowhere.fileno(), 1)
            run_hook(["claude-code"], dict(os.environ), Openers(open_light, open_found))
            signal.setitimer(signal.ITIMER_REAL, 0)
    for number, place in enumerate(places):
        os.dup2(place, number)
        os.close(place)
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    for number, handler in usual.items():
        signal.signal(number, handler)


def prepare():
    """Make this process one whose copies cost little."""
    del sys.path[0]  # nothing of this file's folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_everything()
    read_once(setattr)
    from memplane.cli.app import app  # now that all of it is there

    typer.main.get_command(app)
    warm()
    warm_hook()
    gc.collect()
    gc.freeze()  # no search for garbage touches what the copies share


def forked_beside():
    """As `os.fork`, but what is forked is a child of this process's parent."""
    python = ctypes.PyDLL(None, use_errno=True)
    python.PyOS_BeforeFork()
    child = python.syscall(*map(ctypes.c_long, (CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)))
    if child:
        python.PyOS_AfterFork_Parent()
    else:
        python.PyOS_AfterFork_Child()
    if child < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return child


def serve(connection):
    """Take requests and fork; comes back, in the copy alone, with what it is to be."""
    while True:
        header, files, _, _ = socket.recv_fds(connection, 8, 3)
        if not header:
            os._exit(0)
        request = pickle.loads(exactly(connection, int.from_bytes(header, "little")))
        if CLONE and os.getppid() == request["parent"]:  # nothing stands between that looks on
            child = forked_beside()
            if not child:
                connection.close()
                return request, files
            connection.sendall(child.to_bytes(8, "little"))
            for file in files:
                os.close(file)
            continue
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            between = os.getpid()
            child = os.fork()
            if child:
                os.write(writing, child.to_bytes(8, "little"))
                os._exit(0)
            os.close(reading)
            os.close(writing)
            while os.getppid() == between:  # until the process that asked is the parent
                time.sleep(0.0002)
            connection.close()
            return request, files
        os.waitpid(between, 0)  # now whoever asked is the parent
        connection.sendall(os.read(reading, 8))
        for file in (*files, reading, writing):
            os.close(file)


def become(request, files):
    """Everything about this process that a new one would be given."""
    if request["new_session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in INHERITED:
        ignored = number in request["ignored"]
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    for at, file in enumerate(files):
        os.dup2(file, at)
    for file in files:
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update({os.fsdecode(k): os.fsdecode(v) for k, v in request["env"].items()})
    for at, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        old = getattr(sys, f"__{name}__")
        raw = io.FileIO(at, mode, closefd=False)
        raw.name = f"<{name}>"
        made = io.TextIOWrapper(
            (io.BufferedReader if mode == "r" else io.BufferedWriter)(raw),
            encoding=old.encoding, errors=old.errors, newline="\n",
            line_buffering=raw.isatty() or name == "stderr",
        )  # fmt: skip
        made.mode = mode
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)
    random.seed()
    words = sys.orig_argv = request["words"]
    module = words[1] == "-m"
    sys.argv = ["-m", *words[3:]] if module else words[1:]
    sys.path.insert(0, str(Path.cwd() if module else Path(words[1]).absolute().parent))


def run(words):
    """Run it as `python` does, and end as an interpreter does, but for clearing its memory.

    To take the interpreter down touches every page that the copy shares: that costs more than all
    that most commands do.
    """
    code = 0
    try:
        if words[1] == "-m":
            runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[1], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if end.code not in (None, code):
            sys.stderr.write(f"{end.code}\n")
    except BaseException as error:  # noqa: BLE001 - as an interpreter does
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        traceback.print_exc()
        code = 120
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    prepare()
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    become(*asked)
    run(asked[0]["words"])
