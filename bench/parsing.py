"""The baseline of ``manage.py assemble``: reads the same document, and no more."""

from __future__ import annotations

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    json.loads(Path(sys.argv[1]).read_bytes())
