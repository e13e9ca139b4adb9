"""Builds the kernels that pyproject.toml lists: all of them translated first, then compiled on every core.

What Cython needs for memory views would be in each kernel, two thirds of what is compiled: it is one module beside
them, which Cython writes. Its name is long because Python lists it without that of its package, too.

The pages of the manual that `kdump explain` shows go into the package.

Everything else about the package is in pyproject.toml. Cython's compiler is not made for threads, so it runs before
they start; and its output must not depend on which thread was first, or two builds would differ.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from Cython.Build import cythonize
from Cython.Distutils.build_ext import build_ext
from setuptools import Extension, setup
from setuptools.command.build_py import build_py

# What a mistake in a kernel may do at worst: end the process. Of a compiler for another system nobody knows the flags.
_IS_LINUX = sys.platform == "linux"
_HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"] if _IS_LINUX else []
_LINKED = ["-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack"] if _IS_LINUX else []
_SHARED = "kdump.format.kernels._kdump_memoryview"
_EXPLAINED = ("kdump-findings.7", "kdump-json.5", "kdump-runbooks.7")  # pages that `kdump explain` reads


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

    def build_extensions(self) -> None:
        """Translate the kernels one after the other, then compile them."""
        shared = Extension(_SHARED, [_SHARED.replace(".", "/") + ".c"])
        self.extensions = cythonize(
            [*self.extensions, shared], force=self.force, quiet=True, shared_utility_qualified_name=_SHARED
        )
        for extension in self.extensions:
            extension.optional = True  # without a compiler they are interpreted
            extension.extra_compile_args += ["-O3", "-fwrapv", "-g0", *_HARDENED]
            extension.extra_link_args += ["-s", *_LINKED]
        super().build_extensions()


setup(cmdclass={"build_ext": BuildKernels, "build_py": BuildPython})
