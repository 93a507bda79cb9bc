"""Text from outside for a terminal or a log: whatever could steer it, or hide, shows as an escape.

Control characters (C0, DEL, C1), what changes the direction of writing, characters without a glyph, separators of lines and
paragraphs, halves of surrogate pairs. Nothing is lost: the escapes are those of Python (`\\x1b`, `\\u202e`).
"""

from __future__ import annotations

import re

_INVISIBLE = (
    r"\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
"""Characters without a glyph, as a class of a pattern."""
_UNSEEN = rf"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_INVISIBLE}"
_BUT_LINES = re.compile(f"[{_UNSEEN}]")
_ALL = re.compile(f"[{_UNSEEN}\n\t]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """`text` with escapes for what steers a terminal; lines and tabs stay."""
    return _BUT_LINES.sub(_escape, text) if not text.isprintable() else text


def visible_line(text: str) -> str:
    """`text` on one line: line ends and tabs are escapes too."""
    return _ALL.sub(_escape, text) if not text.isprintable() else text


def json_visible(text: str) -> str:
    """A text of JSON with JSON's own escapes for what steers a terminal: the values are the same."""
    return _BUT_LINES.sub(_json_escape, text) if not text.isprintable() else text


def _json_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
