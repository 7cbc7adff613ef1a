"""Writes THIRD-PARTY-LICENSES: the licences of the Rust packages whose code is in the wheel.

    python crates/ixion-python/licenses.py             # after changing dependencies
    python crates/ixion-python/licenses.py --check     # exit code 1 if the file has to be written again

Of a package with a choice of licences, the first one of `PREFERRED` is taken. A text that several packages have is printed once.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
FILE = HERE / "THIRD-PARTY-LICENSES"
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
"""What wheels are built for."""
PREFERRED = ("MIT", "0BSD", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "Apache-2.0")
RULE = "-" * 100
HEADER = """\
The extension module of this package contains code of the Rust packages below, under the licences that follow. It also contains
the standard library of Rust, by the Rust Project Developers, under the MIT License; and pictures of letters of the font Noto
Sans Mono, by the Noto Project Authors, which is under the SIL Open Font License 1.1, https://openfontlicense.org.
"""
MIT = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software
is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT
HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""


class Package(NamedTuple):
    name: str
    version: str
    license: str
    """The expression of its manifest, such as `MIT OR Apache-2.0`."""
    authors: tuple[str, ...]
    folder: Path

    @property
    def chosen(self) -> str:
        """The licence that is taken of those that may be chosen."""
        # Before there was OR, a slash was written.
        choices = [choice.strip(" ()") for choice in re.split(r"\bOR\b|/", self.license)]
        found = [name for name in PREFERRED if name in choices]
        if not found:
            raise SystemExit(f"{self.name} {self.version}: the licence {self.license} is not listed in PREFERRED")
        return found[0]

    def text(self) -> str:
        """The text of that licence, as the package has it."""
        short = self.chosen.removesuffix("-2.0").removesuffix("-2-Clause").removesuffix("-3-Clause").upper()
        named = sorted(self.folder.glob("LICEN[CS]E*"))
        exact = [path for path in named if short in path.name.upper()]
        plain = [path for path in named if path.stem in ("LICENSE", "LICENCE")]
        for path in (*exact, *plain):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            return "\n".join(line.rstrip() for line in lines).strip()
        if self.chosen != "MIT":
            raise SystemExit(f"{self.name} {self.version}: there is no file with its licence in {self.folder}")
        return f"Copyright (c) {', '.join(self.authors) or 'its authors'}\n\n{MIT}"


def said(*command: str) -> str:
    done = subprocess.run(("cargo", *command), cwd=HERE, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise SystemExit(f"cargo {command[0]} failed")
    return done.stdout


def packages() -> list[Package]:
    """The packages of others that are linked, without what only runs while they are compiled."""
    found = set()
    for target in TARGETS:
        tree = said("tree", "--locked", "-p", "ixion-python", "-e", "no-build,no-dev,no-proc-macro", "--target", target,
                    "--prefix", "none", "--format", "{p}")
        linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
        known = json.loads(said("metadata", "--locked", "--format-version", "1", "--filter-platform", target))["packages"]
        found |= {Package(it["name"], it["version"], it["license"] or "", tuple(it["authors"]), Path(it["manifest_path"]).parent)
                  for it in known if it["source"] and (it["name"], f"v{it['version']}") in linked}
    return sorted(found)


def document(linked: list[Package]) -> str:
    texts: dict[str, list[Package]] = {}
    for package in linked:
        texts.setdefault(package.text(), []).append(package)
    parts = [HEADER, "\n".join(f"{package.name} {package.version}: {package.chosen}" for package in linked) + "\n"]
    for text, users in texts.items():
        names = ", ".join(f"{package.name} {package.version}" for package in users)
        parts.append(f"{RULE}\n{names}\n\n{text}\n")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the file is out of date")
    wanted = document(packages())
    if not parser.parse_args().check:
        FILE.write_text(wanted, encoding="utf-8", newline="\n")
    elif not FILE.is_file() or FILE.read_text(encoding="utf-8") != wanted:
        print(f"{FILE.name} is out of date: run python crates/ixion-python/licenses.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
