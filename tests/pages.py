"""Reads a page as a browser does: its tables, and whether every element is closed in its turn."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The tables by id, each as rows of text; the elements, and the attributes that could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.words: list[str] = []
        self._table = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        said = {name: value or "" for name, value in attrs}
        self.ids += [said["id"]] if "id" in said else []
        self.loads += [value for name, value in said.items() if name in ("src", "href", "xlink:href", "action")]
        self.loads += [name for name in said if name.startswith("on")]
        if tag != "meta":
            self.open.append(tag)
        if tag == "table":
            self._table = said["id"]
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self.tables[self._table][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[self._table][-1][-1] += data

    def rows(self, table: str) -> list[list[str]]:
        """The rows of a table below its headers, numbers without commas."""
        return [[cell.replace(",", "") for cell in row] for row in self.tables[table][1:]]
