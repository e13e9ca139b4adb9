"""Brings the libraries that a Python needs into its tree, and tells the least glibc of all that is there.

    elf_closure.py TREE PYTHON PATCHELF

TREE/python is the copy of a Python, with its packages; PYTHON is the one that it was copied from: its libraries are
found as it finds them. What belongs to glibc stays out. Files are stripped, and look for their libraries in the tree
alone. Printed are a line `library NAME PACKAGE RELEASE TERMS` for each that was brought, and `glibc X.Y`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

GLIBC = re.compile(
    r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|util|pthread|resolv|anl|mvec|nss_.*|BrokenLocale|thread_db))\.so.*"
)


def is_elf(path: Path) -> bool:
    """Tell whether a file is a program or a library."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path: Path) -> list[str]:
    """Return the names of the libraries that a file asks for."""
    with path.open("rb") as file:
        return [
            tag.needed
            for section in ELFFile(file).iter_sections("SHT_DYNAMIC")
            for tag in section.iter_tags("DT_NEEDED")
        ]


def newest_glibc(path: Path) -> tuple[int, ...]:
    """Return the newest release of glibc of which a file uses a symbol."""
    found: list[tuple[int, ...]] = [(0,)]
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections("SHT_GNU_verneed"):
            for _, versions in section.iter_versions():
                names = (re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", version.name) for version in versions)
                found += [tuple(map(int, name[1].split("."))) for name in names if name is not None]
    return max(found)


def on_this_machine(path: Path) -> dict[str, str]:
    """Return where the loader finds the libraries of a file, and theirs, by name."""
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return dict(re.findall(r"(\S+) => (/\S+)", said))


def owner(path: str) -> tuple[str, str, str]:
    """Return the package of a library, its release, and the file with its terms."""
    real = os.path.realpath(path)
    for there in (real, real.removeprefix("/usr")):
        if shutil.which("dpkg-query"):
            said = subprocess.run(["dpkg-query", "-S", there], capture_output=True, text=True, check=False).stdout
            if said:
                package = said.split(":")[0]
                asked = ["dpkg-query", "-W", "-f", "${Version}\n", package]
                release = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\n")[0]
                return package, release, f"/usr/share/doc/{package}/copyright"
        if shutil.which("rpm"):
            asked = ["rpm", "-qf", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}", there]
            said = subprocess.run(asked, capture_output=True, text=True, check=False)
            if said.returncode == 0:
                package, release = said.stdout.split()
                terms = next(iter(sorted(Path("/usr/share/licenses", package).glob("*"))), None)
                if terms is not None:
                    return package, release, str(terms)
    sys.exit(f"elf_closure.py: nobody knows whose {real} is, and on which terms")


def main() -> None:
    """Bring the libraries, and print what was brought."""
    tree, python, patchelf = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    home = tree / "python"
    packages = next(home.glob("lib/python*/site-packages"))
    files = sorted(path for path in home.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path))
    here = {path.name for path in files}
    places = on_this_machine(python.resolve())
    originals = {path.name: path for path in python.resolve().parent.parent.glob("lib/python*/lib-dynload/*.so")}
    brought: dict[str, str] = {}
    changed = {path for path in files if packages not in path.parents}
    for path in files:  # grows while it is read
        original = path if packages in path.parents else originals.get(path.name)
        for name in needed(path):
            if GLIBC.fullmatch(name) or (name in here and name not in brought):
                continue
            changed.add(path)
            if name in brought:
                continue
            if original is not None and name not in places:
                places |= on_this_machine(original)
            if name not in places:
                sys.exit(f"elf_closure.py: {path.relative_to(tree)} needs {name}, which is not found")
            target = home / "lib" / name
            shutil.copyfile(places[name], target)
            target.chmod(0o755)
            files.append(target)
            changed.add(target)
            here.add(name)
            brought[name] = places[name]
            places = on_this_machine(Path(places[name])) | places
    for path in files:
        subprocess.run(["strip", "--strip-debug", path], check=True)
    for path in sorted(changed):
        way = f"$ORIGIN/{os.path.relpath(home / 'lib', path.parent)}"
        subprocess.run([patchelf, "--add-rpath" if packages in path.parents else "--set-rpath", way, path], check=True)
    for name, place in sorted(brought.items()):
        if not name.startswith("libpython"):
            print("library", name, *owner(place))
    least = max(newest_glibc(path) for path in files)
    print("glibc", ".".join(map(str, least)))


if __name__ == "__main__":
    main()
