"""Builds the kernels that pyproject.toml lists: all of them translated first, then compiled on every core.

What Cython needs for memory views would be in each kernel, two thirds of what is compiled: it is one module beside
them, which Cython writes. Its name is long because Python lists it without that of its package, too.

The pages of the manual that `kdump explain` shows go into the package.

Kernels use the limited API of Python 3.11, so one wheel is for it and all later ones. That costs no time: see
tests/bench/README.md. A Python without the GIL has no limited API, and gets kernels of its own.

Everything else about the package is in pyproject.toml. Cython's compiler is not made for threads, so it runs before
they start; and its output must not depend on which thread was first, or two builds would differ.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from Cython.Distutils.build_ext import build_ext
from setuptools import Extension, setup
from setuptools.command.build_py import build_py

# What a mistake in a kernel may do at worst: end the process. Of a compiler for another system nobody knows the flags.
_IS_LINUX = sys.platform == "linux"
_HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"] if _IS_LINUX else []
_LINKED = ["-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack"] if _IS_LINUX else []
_LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
_OLDEST = 3, 11  # Python: the first whose limited API has buffers; requires-python in pyproject.toml says it, too
_SHARED = "kdump.format.kernels._kdump_memoryview"
_EXPLAINED = ("kdump.1", "kdump-findings.7", "kdump-json.5", "kdump-runbooks.7")  # of these `kdump` shows parts


class BuildPython(build_py):
    """Puts the pages that the program itself shows beside its modules, in the package."""

    def run(self) -> None:
        """Copy them; an editable installation reads them from where they are."""
        super().run()
        if not self.editable_mode:
            for page in _EXPLAINED:
                target = Path(self.build_lib, "kdump", "man", page)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path("man", page), target)


class BuildKernels(build_ext):  # type: ignore[misc]
    """Compiles the kernels in parallel, without debug information: it holds paths, and is four fifths of the size."""

    def finalize_options(self) -> None:
        """Use every core unless the command line says otherwise."""
        super().finalize_options()
        if self.parallel is None:
            self.parallel = True

    def get_ext_filename(self, ext_name: str) -> str:
        """Return the path of a kernel, with the suffix of those that every Python takes."""
        path = str(super().get_ext_filename(ext_name))
        return path.removesuffix(sysconfig.get_config_var("EXT_SUFFIX")) + ".abi3.so" if _LIMITED else path

    def build_extensions(self) -> None:
        """Translate the kernels one after the other, then compile them."""
        shared = Extension(_SHARED, [_SHARED.replace(".", "/") + ".c"])
        self.extensions = cythonize(
            [*self.extensions, shared], force=self.force, quiet=True, shared_utility_qualified_name=_SHARED
        )
        for extension in self.extensions:
            extension.optional = True  # without a compiler they are interpreted
            if _LIMITED:
                extension.define_macros.append(("Py_LIMITED_API", f"0x{_OLDEST[0]:02X}{_OLDEST[1]:02X}0000"))
            extension.extra_compile_args += ["-O3", "-fwrapv", "-g0", *_HARDENED]
            extension.extra_link_args += ["-s", *_LINKED]
        super().build_extensions()
        if self.inplace:
            self._remove_others()

    def _remove_others(self) -> None:
        """Remove kernels for one Python that lie in the tree: they would be loaded before the new ones."""
        for extension in self.extensions:
            new = Path(self.get_ext_fullpath(extension.name))
            for old in new.parent.glob(f"{new.name.partition('.')[0]}.cpython-*.so"):
                if old.name != new.name and new.exists():
                    old.unlink()


setup(
    cmdclass={"build_ext": BuildKernels, "build_py": BuildPython},
    options={"bdist_wheel": {"py_limited_api": "cp{}{}".format(*_OLDEST)}} if _LIMITED else {},
)
