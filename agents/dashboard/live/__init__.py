"""Pages that stay as the fleet is, for as long as somebody looks at them.

Views and the dashboard's socket come in by the page: `pages` (fleet, Mysis, map,
health), `turn_page`, `context_page` and `events_page`. They draw with `fragments`; what
happened meanwhile they are told in `changes`. Nothing else imports this package.
"""
