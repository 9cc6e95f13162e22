"""The licences of what is installed to run, out of the packages' own metadata.

``python -m tests.licences`` writes the table of ``docs/licences.md`` anew.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "licences.md"
HEAD = "| package | licence |\n|---|---|\n"
# The oldest Python that Zoea runs on needs the most packages.
OLDEST = {"python_version": "3.11", "python_full_version": "3.11.0"}
# The identifiers of SPDX for what older metadata says in words.
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
NAMED = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR) [A-Za-z0-9.+-]+)*")


def find_packages() -> dict[str, metadata.Distribution]:
    """The packages of ``requirements.txt`` and all that these need, by name."""
    found: dict[str, metadata.Distribution] = {}
    seen: set[str] = set()
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = [line.partition("#")[0].strip() for line in lines]
    while wanted:
        text = wanted.pop()
        if not text or text in seen:
            continue
        seen.add(text)
        asked = Requirement(text)
        name = canonicalize_name(asked.name)
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            # For another Python than this one.
            continue
        wanted += _needs(found[name], asked.extras)
    return found


def _needs(package: metadata.Distribution, extras: set[str]) -> list[str]:
    return [
        text
        for text in package.requires or ()
        if (marker := Requirement(text).marker) is None
        or any(marker.evaluate(OLDEST | {"extra": extra}) for extra in ("", *extras))
    ]


def read_licence(package: metadata.Distribution) -> str:
    """The expression of a package's licence; its first words where it has none."""
    known = package.metadata
    if known["License-Expression"]:
        return str(known["License-Expression"])
    said = (known["License"] or "").strip()
    kinds = [
        kind.rpartition(" :: ")[2]
        for kind in known.get_all("Classifier") or ()
        if kind.startswith("License :: ")
    ]
    # The text of a licence begins with its name, and a classifier is surer.
    words = said if NAMED.fullmatch(said) and said != "BSD" else ""
    words = words or (kinds[0] if kinds else said.partition("\n")[0])
    return SPDX.get(words, words)


def read_documented() -> dict[str, str]:
    """The packages and licences of the document."""
    _, _, rows = DOCUMENT.read_text().partition(HEAD)
    cells = (line.strip("| ").partition(" | ") for line in rows.splitlines())
    return {name: licence for name, _, licence in cells}


def main() -> None:
    """Write the table anew."""
    above, _, _ = DOCUMENT.read_text().partition(HEAD)
    rows = (
        f"| {k} | {read_licence(v)} |\n" for k, v in sorted(find_packages().items())
    )
    DOCUMENT.write_text(above + HEAD + "".join(rows))
    sys.stdout.write(f"{DOCUMENT.relative_to(ROOT)} is written.\n")


if __name__ == "__main__":
    main()
