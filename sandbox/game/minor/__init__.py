"""The table of minor actions (`Row`): all that the usual round does without."""
