"""Where a text holds a secret, judged by its looks: a name that says so before a value, a URL with a password, a key block, the shape
of a known kind of token. Pure, and linear in the text.

Linear, since this runs on texts that others chose: every pattern is anchored or bounded on its left, and repeats are possessive or bounded.
A scanned value is never scanned again. After MAX_PLACES suspicious places the rest counts as one secret.

Quoted and encoded texts hold secrets too: JSON within JSON, `%3D`, `&quot;`, `\\u0022`. `folded_text` decodes such escapes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tiering.redaction import unnamed_secrets
from tiering.redaction.folded_text import SOFT, SOFT_LINE, Folded, Span, behind, fold, places

# -- Names ---------------------------------------------------------------------------------------------------------------------------
_KEY_OF = (
    r"access|account|api|app|auth|client|consumer|customer|decryption|encryption|functions|hmac|host|license|master|"
    r"private|rsa|service|session|shared|signing|sse|ssh|storage|subscription|webhook"
)
_ALONE = r"(?![a-z-])(?=[\\\"']{0,8}+[ ]?[=:])"
"""Behind a short word: it is the end of its name, and a value follows."""
_BEFORE_PASS = ("[-_.]", "db", "pg", "my", "user", "ssh", "ftp", "smtp", "root")
_ENDS_IN_PASS = "|".join(f"(?<={before}pass)" for before in _BEFORE_PASS)
_WORDS = (
    rf"pass(?:word(?!less)|wd|wort|[-_ ]?phrase|code|(?![a-z])(?:{_ENDS_IN_PASS})|(?<![a-z]pass){_ALONE})",
    *("pwd", "kennwort", r"secret(?!ar)", "credential", "authorization", r"client[-_]?assertion", r"code[-_]?verifier", r"azure\.sas"),
    *(rf"{kind}[-_. ]?key(?:[-_. ]?id(?![a-z]))?" for kind in _KEY_OF.split("|")),
    *(r"token(?!i[sz])", "signature", "cookie", "sessid", "bearer"),
    *(rf"{word}(?<![a-z]{word}){_ALONE}" for word in ("auth", "sas", "pw")),
)
"""Each begins with a letter of its own: so a search skips fast what is none of them."""
_WORD = rf"(?P<word>{'|'.join(_WORDS)})"
_HEADERS = ("authorization", "cookie")
"""Their values have blanks in them."""
_STEMS = (
    "pass",
    "pwd",
    "kennwort",
    "assertion",
    "verifier",
    "secret",
    "credential",
    "key",
    "token",
    "signature",
    "cookie",
    "sessid",
    "auth",
    "bearer",
    "sas",
    "pw",
)
"""A text without any of them has no secret name."""
_ABOUT_A_SECRET = re.compile(
    r"s?[-_. ]?(?:ids?|counts?|types?|names?|length|len|size|ttl|ms|expiry|expires(?:[-_.](?:at|in))?|expiration|url|uri|endpoint|path|"
    r"file|provider|column|position|offset|index|limit|at|time|version|status|error|policy|enabled|required|kind|format|class|arn)"
)
"""Behind a secret word: it is not the secret itself, such as `token_id`."""
_STATES = re.compile(
    r"none|null|nil|true|false|undefined|required|missing|expired|invalid|unknown|empty|unset|set|not|is|was|are|"
    r"must|should|cannot|field|wrong|incorrect|denied|failed|rejected|refused|revoked|too"
)
"""Words with which errors describe a secret; they are no secrets."""
_METHODS = re.compile(r"none|token|mtls|oidc")
"""How callers prove who they are (`--auth`): no secrets either."""
_FEW_CHARACTERS, _FEW_DIGITS = 2, 4
"""Minimum of a value behind a weak word: `unexpected token: '}'`, `token = 12`."""

_DECORATION = r"[\\\"'`\])]{0,16}+"
_GAP = rf"[ \t{SOFT}]{{0,16}}+"
_NAMED = re.compile(rf"{_WORD}(?P<rest>[\w.-]*+)(?P<decor>{_DECORATION}){_GAP}(?P<sep>=>|->|:=|={{1,3}}|:|,)?+")
"""Takes a name without a sign behind it too: a search that failed would look at all of it again."""
_NAME_IN_NAME = re.compile(rf"{_WORD}(?P<rest>[\w.-]*+)")
_PAIRED = re.compile(
    rf"{_DECORATION}(?:</\w{{1,16}}+>)?[\s,;{SOFT}{SOFT_LINE}]{{0,32}}+[\\\"'<]{{0,8}}+value[\\\"']{{0,8}}+{_GAP}(?P<sep>[=:>])"
)
"""Behind a name: where its value stands under a name of its own."""
_ELEMENT = re.compile(r"<([\w.:-]{1,128}+)(?:\s[^<>]{0,256}+)?>")
_FLAG = re.compile(r"(?<![\w-])--?([\w.-]{1,64}+)[ \t]{1,8}+(?=[^\s-])")
_QUOTED_NEXT = re.compile(
    r"(?P<word>pass(?:word|wd|phrase)|identified\s{1,4}+by|(?<=[(,]\s)secret|(?<=[(,])secret|key_id|session_token)\s{1,8}+(?=[\"'])"
)
_SAID = re.compile(r"(?:password|passwd|passphrase|pwd)\s{1,4}+(?:is\s|was\s)?(?=\S{6})(?=[^\s\d]{1,64}+\d)")
"""A word behind it with letters and digits is no word."""
_LOGIN = re.compile(r"(?<!\w)login\s{1,4}+\S{1,128}+\s{1,4}+password\s{1,4}+")
_ON_A_COMMAND_LINE = re.compile(
    r"(?<!\w)(?:(?:mysql|mysqldump|mysqladmin|mariadb)(?!\w)[^\n]{0,200}?\s-p(?=\S)|sshpass\s{1,4}+-p\s{0,4}+"
    r"|(?:-u|--user|--proxy-user)[ =]{1,4}+[\"']?[^\s:\"'/]{1,64}+:)"
)
_OWN_CALL = re.compile(r"call sys\.\w{1,40}+\([\"']\Z")
"""Before a table's name: hints print such statements, to be run as they are, and no procedure takes a secret."""

# -- Values --------------------------------------------------------------------------------------------------------------------------
_BEFORE_VALUE = re.compile(rf"[ \t{SOFT}]{{0,64}}+(?:\r?[\n{SOFT_LINE}][ \t]{{1,64}}+)?")
_OPENING = re.compile(r"[bru]{0,2}(?P<slashes>\\{0,31}+)(?P<quote>[\"'`])", re.IGNORECASE)
_UNQUOTED = re.compile(r"(?:[^\s,;&\"'`)}\]<]++|[,;&](?!\s|\Z|[\w.-]{1,64}+\s?[=:])|[\"'`)}\]](?![\s,;:.&)}\]>\"'`]|\\|\Z)|<(?!/))++")
_TO_BLANK = re.compile(r"[^\s\"'`]++")
_SETTING = re.compile(
    rf"[ \t{SOFT}]{{1,64}}+((?=[^\s\d]{{0,64}}+\d)(?=[\d/+=_-]{{0,64}}+[a-z])[^\s.:,;\"'`()\[\]{{}}\\]{{8,}}+)(?=[\s)\]}}\"'\\]|\Z)"
)
"""`spark.hadoop.fs.s3a.secret.key x`, as files of settings have it: behind a name with dots, a word of letters and digits is a value."""
_SCHEME = re.compile(r"(?:basic|bearer|token|apikey|negotiate|ntlm|sharedkey(?:lite)?)\s{1,4}+[^\s\"'`,;]++")
_STRING_BEGINS = re.compile(r"(?<!\\)(?P<slashes>\\{0,31})(?P<quote>[\"'])$")
_LINE_ENDS = "\n" + SOFT_LINE
_LINE_END = re.compile(f"[{_LINE_ENDS}]")
_LINE = re.compile(f"[^{_LINE_ENDS}]*+[{_LINE_ENDS}]|[^{_LINE_ENDS}]++")
_BLOCK_VALUE = re.compile(f"[ \t]{{0,8}}+[|>]?[+-]?\r?[{_LINE_ENDS}]")
_BRACKET = re.compile(r"[\[\]{}()]")
_ENDS_WORD = " .,;:!?\"'"


def secret_spans(text: str, *, cut: bool = False) -> list[Span]:
    """Returns where secrets stand, in any order. `cut` says that the text went on behind its end."""
    folded, rest = fold(text, cut)
    spans = [folded.at(span) for detector in _DETECTORS for span in detector(folded)]
    return [*spans, rest] if rest else spans


def is_secret_name(name: str) -> bool:
    """Whether an option, a column or an environment variable of that name holds a secret."""
    lower = name.lower()
    if not any(stem in lower for stem in _STEMS):
        return False
    lower += "="  # some words are secret names only where they are the whole of it
    return any(_ABOUT_A_SECRET.fullmatch(match["rest"]) is None for match in _NAME_IN_NAME.finditer(lower))


# -- Values behind names -------------------------------------------------------------------------------------------------------------
def _named(folded: Folded) -> Iterator[Span]:
    """Yields values of assignments and pairs: `password=x`, `"token": "x"`, `Authorization: Basic x`, `(b'api-key', b'x')`."""
    lower = folded.lower
    if not any(stem in lower for stem in _STEMS):
        return
    done, pairs = 0, "value" in lower
    for match in places(_NAMED, lower):
        if isinstance(match, int):
            yield match, len(lower)
            return
        if match.start() < done or _ABOUT_A_SECRET.fullmatch(match["rest"]):
            continue
        for span in _values(folded, match, pairs):
            done = span[1]
            yield span


def _values(folded: Folded, match: re.Match[str], pairs: bool) -> Iterator[Span]:
    """Yields the values that belong to a secret name. `pairs`: a value may stand under a name of its own."""
    if pairs and match["sep"] in (None, ",") and (paired := _PAIRED.match(folded.lower, match.end("rest"))):
        # <name>fs.secret</name><value>x</value>, {"name": "password", "value": "x"}, <add key="password" value="x"/>
        yield from _element_value(folded.lower, paired.end()) if paired["sep"] == ">" else _value_at(folded.lower, paired.end())
    elif match["sep"] is not None and _is_assignment(match, folded.lower):
        span = _value(folded, match)
        if span is not None:
            yield span
    elif match["sep"] is None and not match["decor"] and (run := _SETTING.match(folded.lower, match.end("rest"))):
        name = folded.lower[_name_start(folded.lower, match.start()) : match.end("rest")]
        if "." in name:
            yield run.span(1)


def _is_assignment(match: re.Match[str], lower: str) -> bool:
    """Whether a sign assigns a value: a comma does in a pair `('name', 'value')` and behind an option in a list of arguments, a `:` not
    before `//`.
    """
    if match["sep"] == ":":
        return not lower.startswith("//", match.end())
    if match["sep"] != ",":
        return True
    if not set(match["decor"]) & {'"', "'"}:
        return False
    name_start = _name_start(lower, match.start())
    if _OWN_CALL.search(lower, max(0, name_start - 64), name_start):
        return False
    before = lower[max(0, name_start - 4) : name_start].rstrip("\\\"'").rstrip("b")
    return lower.startswith("-", name_start) or before.endswith("(")


def _value(folded: Folded, match: re.Match[str]) -> Span | None:
    """Returns the span behind a name and its sign that has to be hidden; None if nothing has to."""
    lower, word = folded.lower, match["word"]
    opening = _begins_string(lower, match)
    line_start = 0 if opening else _begins_line(lower, match.start()) if folded.has_lines else None  # a file of settings has lines
    if line_start is not None and match["sep"] == ":" and (block := _indented_block(lower, match.end(), line_start)):
        return block
    before = _BEFORE_VALUE.match(lower, match.end())
    start = before.end() if before else match.end()
    if start >= len(lower):
        return None
    quoted = _quoted(lower, start)
    if quoted is not None:
        return None if _harmless(lower[quoted[0] : quoted[1]], word) else quoted
    if lower[start] in "[{(":
        return start, _closing_bracket(lower, start)
    if word in _HEADERS:
        scheme = _SCHEME.match(lower, start)
        return start, scheme.end() if scheme else _line_end(lower, start)
    run = _UNQUOTED.match(lower, start)
    if run is None or _harmless(run[0], word):
        return None
    if word in _WEAK_WORDS:
        return start, run.end()
    if opening is not None:
        return start, max(_string_end(lower, start, opening), run.end())
    if line_start is not None:
        return start, max(_line_end(lower, start), run.end())
    return start, run.end()


def _harmless(value: str, word: str) -> bool:
    bare = value.strip(_ENDS_WORD)
    if not bare or _STATES.fullmatch(bare):
        return True
    if word not in _WEAK_WORDS:
        return False
    if word == "auth" and _METHODS.fullmatch(bare):
        return True
    return len(value) <= _FEW_CHARACTERS or (bare.isdigit() and len(bare) <= _FEW_DIGITS)


_WEAK_WORDS = frozenset({"token", "signature", "cookie", "sessid", "bearer", "pass", "auth", "sas", "pw"})


def _begins_line(lower: str, start: int) -> int | None:
    """Returns the indentation of the line that begins with the name of the secret word at `start`; None if other words stand before it."""
    head = _LINE_END.split(lower[max(0, start - 160) : start])[-1]
    if len(head) == 160:
        return None
    name = head.lstrip()
    name = name.removeprefix("export ").removeprefix("- ").lstrip()
    return len(head) - len(head.lstrip()) if re.fullmatch(r"[\w.\"'-]*", name) else None


def _indented_block(lower: str, start: int, indent: int) -> Span | None:
    """Returns the lines of a YAML value that begins on the line after its name: they are indented deeper than the name, or a list."""
    introduced = _BLOCK_VALUE.match(lower, start)
    if introduced is None:
        return None
    end = begin = introduced.end()
    while line := _LINE.match(lower, end):
        body = line[0].lstrip()
        depth = len(line[0]) - len(body)
        if body and depth <= indent and not (depth == indent and body.startswith("- ")):
            break
        end = line.end()
    end -= end > begin and lower[end - 1] in _LINE_ENDS
    return (begin, end) if lower[begin:end].strip() else None


def _quoted(lower: str, start: int) -> Span | None:
    """Returns the span inside the quotes that open at `start`, up to the end of the text if they never close; None without quotes."""
    opening = _OPENING.match(lower, start)
    if opening is None:
        return None
    quote, level = opening["quote"], len(opening["slashes"])
    inside = opening.end()
    escaped = opening["slashes"] + quote
    if lower.startswith(escaped * 2, inside):
        inside += 2 * len(escaped)
        closing = lower.find(escaped * 3, inside)
        return inside, len(lower) if closing < 0 else closing
    return inside, _closing_quote(lower, inside, quote, level, len(lower))


def _closing_quote(lower: str, inside: int, quote: str, level: int, stop: int) -> int:
    """Returns where the string ends whose text begins at `inside`: before its closing quote and the backslashes of it, else `stop`."""
    position = inside
    while (position := lower.find(quote, position, stop)) >= 0:
        slashes = 0
        while position - slashes > inside and lower[position - slashes - 1] == "\\":
            slashes += 1
        if not level and quote == "'" and position > inside and lower.startswith("'", position + 1):  # SQL doubles them
            position += 2
        elif _closes(slashes, level):
            return position - min(slashes, level)
        else:
            position += 1
    return stop


def _closes(slashes: int, level: int) -> bool:
    """Whether a quote behind so many backslashes ends a string that opened behind `level` of them.

    Each JSON text within a JSON text doubles its backslashes and puts one before its quotes: 0, 1, 3, 7, ...
    """
    if slashes < level:
        return True
    return slashes % (level + 1) == level and (slashes // (level + 1)) % 2 == 0


def _begins_string(lower: str, match: re.Match[str]) -> re.Match[str] | None:
    """Returns the quote before the name if the value stands in the same string: `"password: a b"`, not `"password": "a b"`."""
    name_start = _name_start(lower, match.start())
    opening = _STRING_BEGINS.search(lower, max(0, name_start - 32), name_start)
    return opening if opening and opening["quote"] not in match["decor"] else None


def _string_end(lower: str, start: int, opening: re.Match[str]) -> int:
    """Returns where the string that the quote opened ends, or its line."""
    line = _LINE_END.search(lower, start)
    return _closing_quote(lower, start, opening["quote"], len(opening["slashes"]), line.start() if line else len(lower))


def _name_start(lower: str, position: int) -> int:
    """Returns where the name begins that holds the secret word at `position`, at most 64 characters before it."""
    start = position
    while start and position - start < 64 and (lower[start - 1].isalnum() or lower[start - 1] in "_-."):
        start -= 1
    return start


def _closing_bracket(lower: str, start: int) -> int:
    """Returns the place behind the bracket that closes the one at `start`; the end of the text if none does."""
    depth = 0
    for match in places(_BRACKET, lower, start):
        if isinstance(match, int):
            break
        depth += 1 if match[0] in "[{(" else -1
        if depth == 0:
            return match.end()
    return len(lower)


def _line_end(lower: str, start: int) -> int:
    line = _LINE_END.search(lower, start)
    end = line.start() if line else len(lower)
    return end - 1 if end > start and lower[end - 1] in "\r\"'" else end


def _elements(folded: Folded) -> Iterator[Span]:
    """Yields texts of XML elements: `<password>x</password>`."""
    lower = folded.lower
    if "</" not in lower and not folded.cut:
        return
    for match in places(_ELEMENT, lower):
        if isinstance(match, int):
            yield match, len(lower)
        elif is_secret_name(match[1]):
            yield from _element_value(lower, match.end())  # up to the next '<': no other element is in it


def _element_value(lower: str, start: int) -> Iterator[Span]:
    if lower.startswith("<![cdata[", start):
        start += len("<![cdata[")
        end = lower.find("]]>", start)
    else:
        end = lower.find("<", start)
    end = len(lower) if end < 0 else end
    if end > start:
        yield start, end


def _value_at(lower: str, position: int) -> Iterator[Span]:
    """Yields the span of a quoted value, or of everything up to the next blank."""
    before = _BEFORE_VALUE.match(lower, position)
    start = before.end() if before else position
    if (quoted := _quoted(lower, start)) is not None:
        if quoted[1] > quoted[0]:
            yield quoted
    elif run := _TO_BLANK.match(lower, start):
        yield run.span()


def _flags(folded: Folded) -> Iterator[Span]:
    """Yields values of command-line flags: `--password x`."""
    lower, done = folded.lower, 0
    if "-" not in lower or not any(stem in lower for stem in _STEMS):
        return
    for match in places(_FLAG, lower):
        if isinstance(match, int):
            yield match, len(lower)
        elif match.start() >= done and is_secret_name(match[1]):
            for start, end in _value_at(lower, match.end()):
                done = end
                if not (match[1] == "auth" and _METHODS.fullmatch(lower[start:end].strip(_ENDS_WORD + ")`"))):
                    yield start, end


def _worded(folded: Folded) -> Iterator[Span]:
    """Yields values that stand behind a word: `IDENTIFIED BY 'x'`, `PASSWORD 'x'`, `login me password x`, `curl -u me:x`, `mysql -px`."""
    lower = folded.lower
    for pattern, stems in (
        (_QUOTED_NEXT, ("pass", "identified", "secret", "key_id", "session_token")),
        (_SAID, ("pass", "pwd")),
        (_LOGIN, ("login",)),
    ):
        if any(stem in lower for stem in stems):
            yield from behind(pattern, lower, _value_at)
    if "-u" in lower or "--" in lower or "-p" in lower:
        yield from behind(_ON_A_COMMAND_LINE, lower, _value_at)


_DETECTORS = (_named, _elements, _flags, _worded, *unnamed_secrets.DETECTORS)
