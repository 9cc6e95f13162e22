"""What the pages show, read from the database."""
