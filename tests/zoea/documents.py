"""The documents as tests read them: their text, code blocks and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = (
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "ROADMAP.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "sandbox" / "README.md",
    ROOT / "bench" / "README.md",
)
ALL_TEXT = "\n".join(path.read_text() for path in DOCUMENTS)

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^>]+) -->\n)?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_ROUTES = re.compile(r"`([A-Z]+(?:, [A-Z]+)*) (/[^`\s]*)`")


@dataclass(frozen=True)
class Block:
    """A code block; ``why`` is the reason for which a test cannot run it, else empty."""

    document: str
    language: str
    text: str
    why: str

    def __str__(self) -> str:
        return f"{self.document}: {self.first_line}"

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


def read_document(name: str) -> str:
    """The text of a document below the root."""
    return (ROOT / name).read_text()


def read_prose(path: Path) -> str:
    """A document without its code blocks, whose fences would pass for quotes."""
    return _BLOCK.sub("", path.read_text())


def list_blocks() -> Iterator[Block]:
    """Every code block of every document, in their order."""
    for path in DOCUMENTS:
        for found in _BLOCK.finditer(path.read_text()):
            name = str(path.relative_to(ROOT))
            yield Block(name, found["language"], found["text"], found["why"] or "")


def read_section(document: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level or above."""
    level = heading.partition(" ")[0]
    after = read_document(document).split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^#{{1,{len(level)}}} ", after, maxsplit=1, flags=re.MULTILINE)[0]


def read_table(document: str, heading: str) -> list[list[str]]:
    """The cells of the rows of all tables below a heading, without their heads."""
    rows: list[list[str]] = []
    for line in read_section(document, heading).splitlines():
        if re.fullmatch(r"\|[-:| ]+\|", line):
            rows.pop()
        elif line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            rows.append([cell.strip() for cell in cells])
    return rows


def find_routes(text: str) -> set[tuple[str, str]]:
    """Method and path of the routes that a text names, written as in `GET, PUT /fleet`."""
    return {
        (method, path)
        for methods, path in _ROUTES.findall(text)
        for method in methods.split(", ")
    }
