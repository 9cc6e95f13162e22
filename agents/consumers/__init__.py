"""The WebSockets: of pages, and of programs."""
