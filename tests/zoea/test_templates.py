"""How templates are written, and how they are loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template.loader import get_template

LONGEST = 300
TEMPLATES = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))
# What keeps its blanks by its class shows a line that is broken before its text.
KEEPS_BLANKS = re.compile(
    r'class="[^"]*\b(?:prose|payload|zoea-text|zoea-payload|zoea-diff)\b[^>]*>\s'
)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_lines_can_be_read(path: Path):
    text = path.read_text()
    assert max(map(len, text.splitlines())) <= LONGEST
    assert not KEEPS_BLANKS.search(text)


def test_broken_lines_are_joined_where_no_reader_sees_it(tmp_path: Path, settings):
    source = '<p>\n  Some <a\n    class="b"\n    href="c"\n  >text</a>\n</p>\n<pre>\na</pre>\n'
    (tmp_path / "one.html").write_text(source)
    [engine] = settings.TEMPLATES
    settings.TEMPLATES = [{**engine, "DIRS": [tmp_path]}]
    assert get_template("one.html").render() == (
        '<p> Some <a class="b" href="c">text</a>\n</p>\n<pre>\na</pre>'
    )
