"""Child processes: kept running while wanted, ended with the run."""
