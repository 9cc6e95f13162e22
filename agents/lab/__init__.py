"""The lab: which context is better, proved on recorded calls before it is paid for.

Others use `replay` (the walk over recorded calls), `kept_replays` and `replay_job` (those
on the queue), `report` (what came of them), `recommend` (which policy to choose), `rewind`
(recorded calls made anew with other settings), `prices` (what a setting would cost an hour)
and `analytics` (what came of prompts, policies and models).
"""
