"""The table of minor actions: all that the usual round does without.

A row says what an action needs, costs, moves, changes and teaches (`row`); a few lines
of Python stand beside it where a row alone cannot say it.
"""
