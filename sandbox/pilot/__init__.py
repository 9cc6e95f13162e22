"""The scripted captain: it sees what a model would see, and nothing else."""
