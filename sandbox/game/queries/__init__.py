"""What a captain can ask on the usual round, and the captain's log."""
