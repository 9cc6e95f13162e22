"""A pilot that plays by rules instead of by a language model.

It is called like any model and is given no more than one: the messages of the
view and the tools. What it knows, it reads there (`transcript`, `block`,
`answers`), puts together under one rule of what counts as known (`beliefs`), and
acts on with a list of rules (`plan`). It keeps nothing between two calls.
"""
