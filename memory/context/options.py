from __future__ import annotations

from memory.context.strategy import CommonOptions, OptionError, option  # noqa: F401 - an alias: strategies of others import from here
