"""The lab: which context is better, proved on recorded calls before it is paid for.

Others use `prices` (what a setting would cost an hour) and `analytics` (what came of
prompts, policies and models).
"""
