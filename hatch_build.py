"""Builds the kernel into the wheel where there is a compiler; without one the wheel is pure Python.

`memplane/kernel.py` says what the kernel is. An editable install has it in the source tree.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

_LINUX_OF_OTHERS = ("manylinux", "musllinux")  # what a wheel is only called after it was mended


class KernelBuild(BuildHookInterface[Any]):
    """Compiles `memplane/_kernel.c` for the stable ABI of CPython 3.11."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name what came of it in `build_data`."""
        if self.target_name != "wheel":
            return
        package = Path(self.root) / "memplane"
        if version == "editable":
            # One of other sources may lie there, and must not outlive a build that fails.
            for old in package.glob("_kernel.*.so"):
                old.unlink()
        self._folder = Path(tempfile.mkdtemp())
        made = compiled(package / "_kernel.c", self._folder)
        if made is None:
            self.app.display_warning("memplane: no kernel without a C compiler; Python does it all")
        elif version == "editable":
            shutil.copy2(made, package / made.name)
        else:
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{_platform()}"
            build_data["force_include"][str(made)] = f"memplane/{made.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was only needed while the wheel was written."""
        del version, build_data, artifact_path
        if self.target_name == "wheel":
            shutil.rmtree(self._folder, ignore_errors=True)


def compiled(source: Path, folder: Path) -> Path | None:
    """The kernel, made in that folder; None where it cannot be made."""
    # No product and sum in one step: both round, as in Python. A root is one instruction.
    flags = ["-std=c11", "-g0", "-ffp-contract=off", "-fno-math-errno"]
    extension = Extension(
        "_kernel", [str(source)], py_limited_api=True, optional=True, extra_compile_args=flags,
        libraries=["m"],
    )  # fmt: skip
    command = build_ext(Distribution({"name": "_kernel", "ext_modules": [extension]}))
    command.build_lib, command.build_temp = str(folder), str(folder / "objects")
    try:
        command.ensure_finalized()
        command.run()
    except Exception as error:  # noqa: BLE001 - whatever stands in the way, the wheel is made
        print(f"memplane: the kernel was not built: {error}", file=sys.stderr)  # noqa: T201
    return next(iter(sorted(folder.glob("_kernel.*"))), None)


def _platform() -> str:
    found = next(
        tag.platform for tag in sys_tags() if not tag.platform.startswith(_LINUX_OF_OTHERS)
    )
    if sys.platform != "darwin":
        return found
    from hatchling.builders.macos import process_macos_plat_tag  # noqa: PLC0415 - there alone

    return process_macos_plat_tag(found, compat=False)
