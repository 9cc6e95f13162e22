"""The lab: which context is better, proved on recorded calls before it is paid for.

Others use `rewind` (recorded calls made anew with other settings).
"""
