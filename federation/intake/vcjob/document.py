"""YAML to a tree of nodes that know their lines; refused where a file could mean two things.

Read as kubectl reads it (YAML 1.1 words for truth and nothing, merge keys), but without tags, with
each key once, and never more than a bounded number of nodes: aliases are counted as what they stand
for, so that a few lines cannot become millions of fields.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unicodedata import category

import yaml

from federation.intake.findings import Findings

LONGEST = 1 << 20  # characters, as a script
MOST_NODES = 50_000
MOST_ALIASES = 1_000
MOST_DEPTH = 64
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")

Plain = str | int | float | bool | None


@dataclass(slots=True, eq=False)
class Node:
    """One value of the file.

    Attributes:
        line: where it begins.
        value: a plain value, a list of nodes, or a dictionary of nodes.
        text: a plain value as it is written.
        keys: the lines of a dictionary's keys.
        size: how many nodes it is, with all within.
    """

    line: int
    value: "Plain | list[Node] | dict[str, Node]"
    text: str = ""
    keys: dict[str, int] = field(default_factory=dict)
    size: int = 1


class UnreadableError(ValueError):
    """A file that is not read any further; `field` is what of YAML it is about, or ""."""

    def __init__(self, line: int, code: str, field: str, detail: str) -> None:
        super().__init__(detail)
        self.line, self.code, self.field, self.detail = line, code, field, detail


def read_document(text: str, findings: Findings) -> Node | None:
    """The one document of a file; None where it cannot be read, which is told with its line."""
    try:
        _check_text(text)
        documents = [one for one in _Reader(text).documents() if one.value is not None]
        if len(documents) > 1:
            _refuse_several(documents)
        if not documents:
            raise UnreadableError(1, "empty", "", "The file says nothing.")
        return documents[0]
    except UnreadableError as error:
        findings.refuse(error.line, error.code, error.field, error.detail)
    except yaml.MarkedYAMLError as error:
        _tell_mark(error, text, findings)
    except yaml.YAMLError:  # a character that the reader does not know; those we know come first
        findings.refuse(1, "invalid_yaml", "", "It is not YAML.")
    return None


def _check_text(text: str) -> None:
    if len(text) > LONGEST:
        raise UnreadableError(1, "too_long", "", f"Give at most {LONGEST} characters.")
    if text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ").isprintable():
        return
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        for one in line.removesuffix("\r"):
            if one != "\t" and one not in _JOINERS and category(one) in _HIDDEN:
                detail = "Remove control characters, invisible marks and unpaired surrogates."
                raise UnreadableError(number, "control_character", "", detail)


def _refuse_several(documents: list[Node]) -> None:
    lines = ", ".join(str(one.line) for one in documents[:10])
    kinds = sorted({_kind(one) for one in documents} - {""})
    named = f" ({', '.join(kinds[:5])})" if kinds else ""
    detail = (
        f"There are {len(documents)} documents{named}, which begin in lines {lines}. "
        "Send the Job alone; what it needs beside has to be on the cluster already."
    )
    raise UnreadableError(documents[1].line, "several_documents", "", detail)


def _kind(document: Node) -> str:
    kind = document.value.get("kind") if isinstance(document.value, dict) else None
    return kind.text[:60] if kind else ""


def _tell_mark(error: yaml.MarkedYAMLError, text: str, findings: Findings) -> None:
    """The parser's own words, and what they mean as a rule."""
    mark = error.problem_mark or error.context_mark
    line = 1 if mark is None else mark.line + 1
    lines = text.split("\n")
    written = lines[line - 1] if line <= len(lines) else ""
    said = ", ".join(words for words in (error.context, error.problem) if words)
    indent = written[: len(written) - len(written.lstrip(" \t"))]
    if "\t" in indent:
        code, hint = "tab", "The line begins with a tab; YAML indents with blanks only."
    elif "depth" in said:
        code, hint = "too_large", "It is nested too deeply."
    else:
        code = "invalid_yaml"
        hint = "See how far it and the line before are indented, and whether quotes are closed."
    findings.refuse(line, code, "", f"It is not YAML ({said}). {hint}")


class _Reader:
    """The events of a text put together; not by recursion, so that depth is only a number."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=yaml.CSafeLoader))
        self._anchors: dict[str, Node | None] = {}
        self._nodes = self._aliases = 0

    def documents(self) -> Iterator[Node]:
        """Each document's root."""
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self._root()

    def _root(self) -> Node:
        stack: list[_Open] = []
        for event in self._events:
            if isinstance(event, yaml.CollectionStartEvent):
                self._count(_line(event), 1)
                self._begin(event, stack)
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                closed = stack.pop()
                node = closed.node()
                if closed.anchor:
                    self._anchors[closed.anchor] = node
            else:
                node = self._leaf(event)
            if not stack:
                return node
            stack[-1].add(node, _line(event), is_alias=_is_alias(event))
        raise UnreadableError(1, "invalid_yaml", "", "It ends too early.")  # pragma: no cover

    def _begin(self, event: Any, stack: list["_Open"]) -> None:
        line = _line(event)
        _refuse_tag(event, line)
        if len(stack) >= MOST_DEPTH:
            raise UnreadableError(line, "too_large", "", "It is nested too deeply.")
        if event.anchor:
            self._anchors[event.anchor] = None
        is_map = isinstance(event, yaml.MappingStartEvent)
        stack.append(_Open(line, event.anchor, is_map=is_map))

    def _leaf(self, event: Any) -> Node:
        line = _line(event)
        if _is_alias(event):
            return self._named(event.anchor, line)
        _refuse_tag(event, line)
        self._count(line, 1)
        value = _resolved(event.value) if event.implicit[0] else event.value
        node = Node(line, value, event.value)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _named(self, anchor: str, line: int) -> Node:
        """What an alias stands for; counted as if it were written out."""
        node = self._anchors.get(anchor)
        name = f"*{anchor[:60]}"
        if node is None:
            words = "stands within itself" if anchor in self._anchors else "is not named before"
            raise UnreadableError(line, "unknown_alias", name, f"What it stands for {words}.")
        self._aliases += 1
        if self._aliases > MOST_ALIASES:
            detail = f"There may be at most {MOST_ALIASES} aliases."
            raise UnreadableError(line, "too_large", name, detail)
        self._count(line, node.size)
        return node

    def _count(self, line: int, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            detail = f"It is more than {MOST_NODES} values, aliases counted as what they stand for."
            raise UnreadableError(line, "too_large", "", detail)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _is_alias(event: Any) -> bool:
    return isinstance(event, yaml.AliasEvent)


def _refuse_tag(event: Any, line: int) -> None:
    if event.tag is not None:
        detail = "Tags are not taken. Leave it out; text that looks like a number needs quotes."
        raise UnreadableError(line, "tag", event.tag.replace("tag:yaml.org,2002:", "!!"), detail)


class _Open:
    """A list or dictionary that is being read."""

    def __init__(self, line: int, anchor: str | None, *, is_map: bool) -> None:
        self.line, self.is_map, self.anchor = line, is_map, anchor
        self.items: list[Node] = []
        self.fields: dict[str, Node] = {}
        self.keys: dict[str, int] = {}
        self.merged: list[tuple[int, Node]] = []
        self.key: tuple[str, int] | None = None
        self.size = 1

    def add(self, node: Node, line: int, *, is_alias: bool) -> None:
        """The next value: of a dictionary a key, then its value."""
        self.size += node.size
        if not self.is_map:
            self.items.append(node)
        elif self.key is None:
            self.key = self._key(node, line, is_alias=is_alias)
        else:
            name, at = self.key
            self.key = None
            if name == "<<":
                self.merged.append((at, node))
            else:
                self.fields[name], self.keys[name] = node, at

    def _key(self, node: Node, line: int, *, is_alias: bool) -> tuple[str, int]:
        if isinstance(node.value, list | dict) or is_alias:
            raise UnreadableError(line, "invalid_key", "", "A field's name is a plain word.")
        name = node.text
        if name in self.fields:
            detail = f"It stands in line {self.keys[name]} already. Keep one of them."
            raise UnreadableError(line, "duplicate_key", name[:100], detail)
        return name, line

    def node(self) -> Node:
        """The value as it was read, with what merge keys add."""
        if not self.is_map:
            return Node(self.line, self.items, size=self.size)
        for line, merged in self.merged:
            several = merged.value if isinstance(merged.value, list) else [merged]
            for one in several:
                if not isinstance(one.value, dict):
                    detail = "Give an alias of a dictionary, or a list of such."
                    raise UnreadableError(line, "invalid_merge", "<<", detail)
                for name, node in one.value.items():
                    if name not in self.fields:
                        self.fields[name], self.keys[name] = node, one.keys[name]
        return Node(self.line, self.fields, keys=self.keys, size=self.size)


def _resolved(text: str) -> Plain:
    """What a word without quotes means."""
    if text in _NOTHING:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
