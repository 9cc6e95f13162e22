"""What programs wait for: summaries over REST, and events over the JSON socket."""

from __future__ import annotations
