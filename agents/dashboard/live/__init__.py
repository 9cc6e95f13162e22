"""Pages that stay as the fleet is, for as long as somebody looks at them.

Views and the dashboard's socket come in by the page: `fleet_page`, `mysis_page`,
`turn_page`, `context_page`, `events_page`, and `pages` for all others. They draw with `fragments`; what
happened meanwhile they are told in `changes`. Nothing else imports this package.
"""
