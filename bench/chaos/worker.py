"""``python -m bench.chaos.worker WORDS...``: a worker of one of several games on a database.

The program refuses that; here each game has Myses and queues of its own. The words are
those of ``manage.py``.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    import django

    django.setup()
    from django.core.management import execute_from_command_line

    from agents import fence

    fence.name_game = lambda: "one of several games"
    execute_from_command_line(["manage.py", *sys.argv[1:]])
