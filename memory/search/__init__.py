"""Search in what was said and thought: `results` finds, `query` is how."""
