#!/usr/bin/env python
"""The command line of Zoea: ``python manage.py help``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run one management command, with its database."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    from zoea.commandline import run

    sys.exit(run(sys.argv))


if __name__ == "__main__":
    main()
