"""Loads the program's templates with their broken lines joined again.

They are broken and indented for who writes them. No browser shows that, but a page of
sixty Myses would be a tenth longer, and so would be what the socket sends.
"""

from __future__ import annotations

import re
from typing import Any

from django.template.loaders import filesystem

# Before the end of a tag nothing is needed, elsewhere one space. A line that is not
# indented stays a line: in a <pre> it shows.
END_OF_TAG = re.compile(r"\n[ \t]*(?=>)")
INDENT = re.compile(r"\n[ \t]+")


class Loader(filesystem.Loader):
    """Templates from the folders in DIRS."""

    def get_contents(self, origin: Any) -> str:
        """The source of a template, joined; without the end of its last line."""
        contents = super().get_contents(origin).removesuffix("\n")
        return INDENT.sub(" ", END_OF_TAG.sub("", contents))
