"""The management commands of the fleet."""
