"""The weight of a page: its HTML and every asset that it loads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from bench.visitor import Visitor

LOADED_LINKS = frozenset({"stylesheet", "icon", "preload", "modulepreload", "manifest"})
SOURCES = {"script": "src", "img": "src", "source": "src", "use": "href"}
_IN_CSS = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)|@import\s+["']([^"']+)["']""")


@dataclass(frozen=True)
class Weight:
    """Bytes over the wire and unpacked, and how many requests they took."""

    sent: int
    plain: int
    requests: int


class Assets(HTMLParser):
    """Collects the addresses that a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the address of a tag that loads something."""
        given = dict(attrs)
        if tag == "link" and LOADED_LINKS & set((given.get("rel") or "").split()):
            self.found.append(given.get("href") or "")
        elif tag in SOURCES:
            self.found.append(given.get(SOURCES[tag]) or "")


def assets_of(html: str) -> list[str]:
    """The addresses that a page loads, in its order, each once."""
    parser = Assets()
    parser.feed(html)
    return _distinct(parser.found)


def assets_in_css(css: str) -> list[str]:
    """The addresses that a style sheet loads."""
    return _distinct([one or other for one, other in _IN_CSS.findall(css)])


def weigh(visitor: Visitor, path: str) -> Weight:
    """Fetch a page and what it loads, compressed, nothing from a cache.

    Raises ValueError for an asset from another site.
    """
    page = visitor.get(path)
    answers = {page.url: page}
    waiting = [urljoin(page.url, one) for one in assets_of(page.body.decode())]
    while waiting:
        url = waiting.pop(0)
        if url in answers:
            continue
        if urlsplit(url).netloc != urlsplit(page.url).netloc:
            raise ValueError(f"the page loads {url} from another site")
        answer = answers[url] = visitor.get(url)
        if urlsplit(url).path.endswith(".css"):
            nested = assets_in_css(answer.body.decode())
            waiting += [urljoin(url, one) for one in nested]
    return Weight(
        sent=sum(answer.sent for answer in answers.values()),
        plain=sum(len(answer.body) for answer in answers.values()),
        requests=len(answers),
    )


def _distinct(addresses: list[str]) -> list[str]:
    fetched = (one.partition("#")[0] for one in addresses)
    return list(dict.fromkeys(one for one in fetched if one and not _inline(one)))


def _inline(address: str) -> bool:
    return address.startswith("data:")
