"""What one model call is sent: `prepare` makes the next one, `replay` a past one."""
