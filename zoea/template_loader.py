"""Loads the program's templates with the line breaks and indents of tags removed.

They are for authors. Without them the page of sixty Myses has 3 % less to send after
gzip (17,671 bytes), and that of one Mysis 8 % (4,549).
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
    def get_contents(self, origin: Any) -> str:
        """The joined source of a template, without its last line end."""
        contents = super().get_contents(origin).removesuffix("\n")
        return INDENT.sub(" ", END_OF_TAG.sub("", contents))
