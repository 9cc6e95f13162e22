"""The scripted captain: what it reads, asks, does and says."""
