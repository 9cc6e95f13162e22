"""What the usual round consists of: flying, mining, trading and fighting."""
