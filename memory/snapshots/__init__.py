"""Cached game state by account: `writes` and `notifications` change it, `reads` tells it."""
