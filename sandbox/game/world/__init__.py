"""The world and those who live in it, before anything happens."""
