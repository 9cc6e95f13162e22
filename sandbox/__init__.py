"""A place to fly without the real game and without a provider's key."""
