"""What happens to a flying fleet when one thing fails: how long, and what is lost."""
