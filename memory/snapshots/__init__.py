"""Cached game state by account. Others use `reads`, `writes` (answers and actions) and
`notifications` (events of the game) only. ``asked_at`` is when a call was sent.
"""
