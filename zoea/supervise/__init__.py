"""Child processes: kept running while wanted, gone when not."""
