"""What a model call is sent. Others use `prepare` (the next one), `replay` (a past one under
other settings), `sent_view` (one as it was sent) and `history_summaries` only.
"""
