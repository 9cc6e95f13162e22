"""What everything is held against: one table, one index, and psycopg.

With ``search`` the table has a full-text index as well, which each append then pays for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import psycopg

from bench.peers.workload import HITS, NEWEST, Store, Turn, chat_messages, main

TABLE = """
CREATE TABLE IF NOT EXISTS message (
  id bigserial PRIMARY KEY, conversation uuid NOT NULL, role text NOT NULL,
  content text NOT NULL, tool_calls jsonb, tool_call_id text,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS message_tail ON message (conversation, id DESC);
"""
VECTOR = """
ALTER TABLE message ADD COLUMN IF NOT EXISTS words tsvector
  GENERATED ALWAYS AS (to_tsvector('simple', content)) STORED;
CREATE INDEX IF NOT EXISTS message_words ON message USING gin (words)
  WITH (fastupdate = off);
"""
COLUMNS = "conversation, role, content, tool_calls, tool_call_id"
INSERT = f"INSERT INTO message ({COLUMNS}) VALUES (%s, %s, %s, %s, %s)"  # noqa: S608 (no input in the text)
FETCH = (
    "SELECT id, role, content, tool_calls, tool_call_id FROM message "
    "WHERE conversation = %s ORDER BY id DESC LIMIT %s"
)
ILIKE = (
    "SELECT id, content FROM message WHERE conversation = %s AND content ILIKE %s "
    "ORDER BY id DESC LIMIT %s"
)
INDEXED = (
    "SELECT id, content FROM message WHERE conversation = %s "
    "AND words @@ websearch_to_tsquery('simple', %s) ORDER BY id DESC LIMIT %s"
)


class Plain(Store):
    packages = ("psycopg",)

    def __init__(self, url: str, kind: str = "bare") -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.indexed = kind == "search"
        self.conversation = ""

    def create(self) -> None:
        self.connection.execute(TABLE)
        if self.indexed:
            self.connection.execute(VECTOR)

    def fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY message ({COLUMNS}) FROM STDIN") as copy,
        ):
            for turn in turns:
                for row in _rows(conversation, turn):
                    copy.write_row(row)

    def open(self, conversation: str) -> None:
        self.conversation = conversation

    def append(self, turn: Turn) -> None:
        with self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.executemany(INSERT, _rows(self.conversation, turn))

    def fetch(self) -> int:
        rows = self.connection.execute(FETCH, [self.conversation, NEWEST]).fetchall()
        return len(rows[::-1])

    def search(self, word: str) -> int:
        sql, pattern = (INDEXED, word) if self.indexed else (ILIKE, f"%{word}%")
        values = [self.conversation, pattern, HITS]
        return len(self.connection.execute(sql, values).fetchall())

    def close(self) -> None:
        self.connection.close()


def _rows(conversation: str, turn: Turn) -> list[tuple[str | None, ...]]:
    return [
        (
            conversation,
            message["role"],
            message["content"],
            json.dumps(message["tool_calls"]) if "tool_calls" in message else None,
            message.get("tool_call_id"),
        )
        for message in chat_messages(turn)
    ]


if __name__ == "__main__":
    main(Plain)
