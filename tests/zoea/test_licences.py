"""Nothing runs here under a licence that nobody has looked at."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from tests.licences import find_packages, read_documented, read_licence

# Those that let a program under the MIT licence use and ship the package as it is.
ALLOWED = {
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC-BY-4.0",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "LGPL-3.0-only",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
    "TCL",
    "ZPL-2.1",
}
PACKAGES = find_packages()


def is_allowed(expression: str) -> bool:
    """By every part of it; of a choice one is enough."""
    return all(
        any(one.strip("()") in ALLOWED for one in part.split(" OR "))
        for part in expression.split(" AND ")
    )


def package(folder: Path, **values: str) -> metadata.Distribution:
    """One that says this of itself."""
    lines = (f"{name.replace('_', '-')}: {said}" for name, said in values.items())
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    return metadata.PathDistribution(folder)


def test_what_is_installed_is_in_the_document_under_its_licence() -> None:
    documented = read_documented()
    found = {name: read_licence(one) for name, one in PACKAGES.items()}
    assert found.items() <= documented.items(), "run python -m tests.licences"


def test_the_document_names_nothing_that_is_needed_no_more() -> None:
    """What another Python needs is not installed here."""
    installed = {
        str(one.metadata["Name"]).lower().replace("_", "-").replace(".", "-")
        for one in metadata.distributions()
    }
    assert (read_documented().keys() & installed) <= PACKAGES.keys()


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_a_licence_has_been_looked_at(name: str) -> None:
    assert is_allowed(read_licence(PACKAGES[name]))


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("AGPL-3.0-only", False),
        ("", False),
    ],
)
def test_other_licences_are_refused(said: str, allowed: bool) -> None:
    assert is_allowed(said) is allowed


@pytest.mark.parametrize(
    ("values", "licence"),
    [
        ({"License_Expression": "ISC", "License": "MIT"}, "ISC"),
        (
            {"License": "BSD", "Classifier": "License :: OSI :: BSD License"},
            "BSD-3-Clause",
        ),
        ({"License": "MIT License\n\n        Permission is"}, "MIT"),
        (
            {"Classifier": "License :: OSI Approved :: Apache Software License"},
            "Apache-2.0",
        ),
        ({}, ""),
    ],
)
def test_a_licence_is_read_wherever_a_package_says_it(
    values: dict[str, str], licence: str, tmp_path: Path
) -> None:
    assert read_licence(package(tmp_path, **values)) == licence
