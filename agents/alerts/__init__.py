"""Alerts: raised and cleared by rules, told outside by the event log.

`judge` is one pass over the whole fleet, `outbox` what a target is still to be told, and
`send` says it to the target. The rules themselves are pure, in `rules`.
"""
