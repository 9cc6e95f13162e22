"""The local game: an MCP server with ticks, places, prices and pirates."""
