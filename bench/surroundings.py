"""The environment of a measured program: a folder of its own, defaults else."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = ("ZOEA_", "DJANGO_", "SPACEMOLT_", "OPENAI_", "ANTHROPIC_", "OLLAMA_")
# Set and empty, so that a .env file does not fill them in.
UNSET = ("DATABASE_URL", "SPACEMOLT_MCP_URL")


def environment(data: Path) -> dict[str, str]:
    """What a program is started with to use ``data`` and nothing else of ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    return kept | dict.fromkeys(UNSET, "") | {"ZOEA_DATA": str(data)}
