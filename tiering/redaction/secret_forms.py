"""Where a text holds a secret, judged by its form: a telling name before a value. `unnamed_secrets` has the forms without a name.

Linear, since this runs on texts that others chose: every pattern is anchored or bounded on its left, and repeats are possessive or bounded.
A scanned value is never scanned again, and the text after too many matches is hidden.

Quoted and encoded texts hold secrets too: the patterns know `%3D`, `&quot;`, `\\u0022` and the letters `\\n` as signs and line ends.
"""

from __future__ import annotations

import re

from tiering.redaction import unnamed_secrets
from tiering.redaction.unnamed_secrets import Form, SearchedText, Span, end_of, spans_of

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
"""Headers whose values contain blanks."""
_STEMS = (
    *("pass", "pwd", "pw", "kennwort", "assertion", "verifier", "secret", "credential"),
    *("key", "token", "signature", "cookie", "sessid", "auth", "bearer", "sas"),
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
"""Methods of authentication (`--auth`), which are no secrets."""
_WEAK_WORDS = frozenset({"token", "signature", "cookie", "sessid", "bearer", "pass", "auth", "sas", "pw"})
_FEW_CHARACTERS, _FEW_DIGITS = 2, 4
"""Minimum of a value behind a weak word: `unexpected token: '}'`, `token = 12`."""

# -- Before values -------------------------------------------------------------------------------------------------------------------
_DECORATION = r"(?:%2[27]|&quot;|\\u0022|[\\\"'`\])]){0,16}+"
_GAP = r"(?:[ \t]|%20){0,16}+"
_QUOTE = r"\\{0,8}+[\"']"
_NAMED = re.compile(rf"{_WORD}(?P<rest>[\w.-]*+)(?P<decor>{_DECORATION}){_GAP}(?P<sep>=>|->|:=|={{1,3}}|:(?!//)|%3[ad]|&gt;)?+")
"""Takes a name without a sign behind it too: a search that failed would look at all of it again. So does the next pattern."""
_PAIRED = re.compile(
    rf"{_WORD}(?P<rest>[\w.-]*+)(?:{_DECORATION}(?:</\w{{1,16}}+>)?(?:[\s,;]|\\n){{0,32}}+[\\\"'<]{{0,8}}+value[\\\"']{{0,8}}+{_GAP}"
    r"(?P<sep>[=:>]))?+"
)
"""The value stands under a name of its own: `<name>fs.secret</name><value>x</value>`, `{"name": "password", "value": "x"}`."""
_NAME_IN_NAME = re.compile(rf"{_WORD}(?P<rest>[\w.-]*+)")
_ITEM = re.compile(rf"(?:\([bru]?{_QUOTE}|{_QUOTE}(?=-))(?P<name>[\w.-]{{1,128}}+){_QUOTE},{_GAP}")
"""`('api-key', 'x')`, `['--password', 'x']`."""
_ELEMENT = re.compile(r"<(?P<name>[\w.:-]{1,128}+)(?:\s[^<>]{0,256}+)?>")
_FLAG = re.compile(r"(?<![\w-])--?(?P<name>[\w.-]{1,64}+)[ \t]{1,8}+(?=[^\s-])")
_SETTING = re.compile(
    r"(?<![\w.-])(?P<name>[\w-]{1,64}+(?:\.[\w-]{1,64}+){1,16}+)[ \t]{1,64}+"
    r"(?=[^\s\d]{0,64}+\d)(?=[\d/+=_-]{0,64}+[a-z])(?=[^\s.:,;\"'`()\[\]{}\\]{8,}+(?:[\s)\]}\"'\\]|\Z))"
)
"""`spark.hadoop.fs.s3a.secret.key x`, as files of settings have it: behind a name with dots, a word of letters and digits is a value."""
_QUOTED_NEXT = re.compile(
    r"(?:pass(?:word|wd|phrase)|identified\s{1,4}+by|(?<=[(,]\s)secret|(?<=[(,])secret|key_id|session_token)\s{1,8}+(?=[\"'])"
)
_SAID = re.compile(
    r"(?:password|passwd|passphrase|pwd)\s{1,4}+(?:is\s|was\s)?(?=\S{6})(?=[^\s\d]{1,64}+\d)|(?<!\w)login\s{1,4}+\S{1,128}+\s{1,4}+password\s{1,4}+"
)
"""A word behind it with letters and digits is no word."""
_ON_A_COMMAND_LINE = re.compile(
    r"(?<!\w)(?:(?:mysql|mysqldump|mysqladmin|mariadb)(?!\w)[^\n]{0,200}?\s-p(?=\S)|sshpass\s{1,4}+-p\s{0,4}+"
    r"|(?:-u|--user|--proxy-user)[ =]{1,4}+[\"']?[^\s:\"'/]{1,64}+:)"
)
_OWN_CALL = re.compile(r"call sys\.\w{1,40}+\Z")
"""Before a table's name: hints print such statements, to be run as they are, and no procedure takes a secret."""

# -- Values --------------------------------------------------------------------------------------------------------------------------
_LINE_END = r"(?:\r?\n|(?:\\{1,8}+r)?\\{1,8}+n)"
"""A line end, or the letters `\\n` of an encoded one."""
_BEFORE_VALUE = re.compile(rf"(?:[ \t]|%20){{0,64}}+(?:{_LINE_END}[ \t]{{1,64}}+)?")
_OPENING = re.compile(r"[bru]{0,2}(?P<quote>\\{0,31}+[\"'`])")
_CLOSING = re.compile(r"''|(?<!\\)(?P<slashes>\\*+)(?P<quote>[\"'`])")
"""Two apostrophes are one within a string of SQL, and close none."""
_UNQUOTED = re.compile(r"(?:[^\s,;&\"'`)}\]<]++|[,;&](?!\s|\Z|[\w.-]{1,64}+\s?[=:])|[\"'`)}\]](?![\s,;:.&)}\]>\"'`]|\\|\Z)|<(?!/))++")
_TO_BLANK = re.compile(r"[^\s\"'`]++")
_LINE = re.compile(r"[^\n]*+\n|[^\n]++")
_TO_LINE_END = re.compile(r"[^\n]*+")
_SCHEME = re.compile(r"(?:basic|bearer|token|apikey|negotiate|ntlm|sharedkey(?:lite)?)\s{1,4}+[^\s\"'`,;]++")
_CONTEXT = re.compile(r"[\w.-]*+(?P<quote>[\"']\\{0,31}+)?(?:(?: tropxe| -)?(?P<indent>[ \t]*+)(?:\n|n?+(?<=n)\\))?")
"""Before a secret word, backwards: whether its name begins a line or a string, perhaps after `export` or a dash. A search forwards would
try each start."""
_CONTEXT_CHARACTERS = 160
_BLOCK_VALUE = re.compile(r"[ \t]{0,8}+[|>]?[+-]?\r?\n")
_BRACKET = re.compile(r"[\[\]{}()]")
_ENDS_WORD = " .,;:!?\"'"


def secret_spans(text: str, *, cut: bool = False) -> list[Span]:
    """Returns where secrets stand, in any order. `cut` says that the text went on behind its end."""
    lower = text.replace("\u0130", "I").lower()  # the only character that becomes longer in lower case
    searched = SearchedText(text, lower, "\n" in text, cut)
    forms = (*_NAME_FORMS, *_FORMS) if any(map(lower.__contains__, _STEMS)) else _FORMS
    return [*spans_of(forms, searched), *unnamed_secrets.token_spans(searched)]


def is_secret_name(name: str) -> bool:
    """Whether an option, a column or an environment variable of that name holds a secret."""
    lower = name.lower()
    if not any(stem in lower for stem in _STEMS):
        return False
    lower += "="  # some words are secret names only where they are the whole of it
    return any(_ABOUT_A_SECRET.fullmatch(match["rest"]) is None for match in _NAME_IN_NAME.finditer(lower))


def _assigned(searched: SearchedText, match: re.Match[str]) -> Span | None:
    """Returns the value of an assignment: `password=x`, `"token": "x"`, `Authorization: Basic x`."""
    lower, word = searched.lower, match["word"]
    if match["sep"] is None or _ABOUT_A_SECRET.fullmatch(match["rest"]):
        return None
    indent, quote = _context(searched, match)
    if indent is not None and match["sep"] == ":" and (block := _indented_block(lower, match.end(), indent)):
        return block
    start = end_of(_BEFORE_VALUE, lower, match.end())
    if (quoted := _quoted(lower, start)) is not None:
        return None if _is_harmless(lower[slice(*quoted)], word) else quoted
    if lower.startswith(("[", "{", "("), start):
        return start, _closing_bracket(lower, start)
    if word in _HEADERS:
        return start, end_of(_SCHEME, lower, start) if _SCHEME.match(lower, start) else _line_end(lower, start, quote)
    end = end_of(_UNQUOTED, lower, start)
    if _is_harmless(lower[start:end], word):
        return None
    return start, end if indent is None or word in _WEAK_WORDS else max(end, _line_end(lower, start, quote))


def _context(searched: SearchedText, match: re.Match[str]) -> tuple[int | None, str | None]:
    """Returns the indentation of the line that begins with the name, and the quote of the string that does; None if there is none.

    A value in such a line or string has blanks: `"password: a b"`, but not `"password": "a b"`. Only a text with several lines is a file
    of settings. A string counts as a line without indentation.
    """
    start = match.start()
    head = searched.lower[start - _CONTEXT_CHARACTERS : start] if start > _CONTEXT_CHARACTERS else "\n" + searched.lower[:start]
    context = _CONTEXT.match(head[::-1])
    if context is None:
        return None, None
    quote: str | None = context["quote"]
    if quote is not None and quote[0] not in match["decor"]:
        return 0, quote[::-1]
    return None if context["indent"] is None or not searched.has_lines else len(context["indent"]), None


def _is_harmless(value: str, word: str) -> bool:
    bare = value.strip(_ENDS_WORD)
    if not bare or _STATES.fullmatch(bare):
        return True
    if word == "auth" and _METHODS.fullmatch(bare):
        return True
    return word in _WEAK_WORDS and (len(value) <= _FEW_CHARACTERS or (bare.isdigit() and len(bare) <= _FEW_DIGITS))


def _indented_block(lower: str, start: int, indent: int) -> Span | None:
    """Returns the lines of a YAML value that begins on the line after its name: they are indented deeper than the name, or a list."""
    begin = end_of(_BLOCK_VALUE, lower, start)
    if begin == start:
        return None
    end = begin
    while line := _LINE.match(lower, end):
        body = line[0].lstrip()
        depth = len(line[0]) - len(body)
        if body and depth <= indent and not (depth == indent and body.startswith("- ")):
            break
        end = line.end()
    block = lower[begin:end].rstrip()
    return (begin, begin + len(block)) if block else None


def _quoted(lower: str, start: int) -> Span | None:
    """Returns the span inside the quotes that open at `start`, up to the end of the text if they never close; None without quotes."""
    opening = _OPENING.match(lower, start)
    if opening is None:
        return None
    quote, inside = opening["quote"], opening.end()
    if lower.startswith(quote * 2, inside):
        inside += 2 * len(quote)
        closing = lower.find(quote * 3, inside)
        return inside, len(lower) if closing < 0 else closing
    return inside, _closing_quote(lower, inside, quote, len(lower))


def _closing_quote(lower: str, inside: int, quote: str, stop: int) -> int:
    """Returns where the string ends whose text begins at `inside`, else `stop`. `quote` is the opening quote with its backslashes.

    Each JSON text within a JSON text puts more backslashes before its quotes, so one with more than the opening quote is inside.
    """
    if lower.startswith(quote, inside):
        return inside
    for match in _CLOSING.finditer(lower, inside, stop):
        if match["quote"] == quote[-1] and len(match["slashes"]) < len(quote):
            return match.start()
    return stop


def _closing_bracket(lower: str, start: int) -> int:
    """Returns the place behind the bracket that closes the one at `start`; the end of the text if none does."""
    depth = 0
    for match in _BRACKET.finditer(lower, start):
        depth += 1 if match[0] in "[{(" else -1
        if depth == 0:
            return match.end()
    return len(lower)


def _line_end(lower: str, start: int, quote: str | None) -> int:
    """Returns where the line ends, or within it the string that `quote` opened."""
    end = end_of(_TO_LINE_END, lower, start)
    if quote is not None:
        return _closing_quote(lower, start, quote, end)
    return end - 1 if end > start and lower[end - 1] in "\r\"'" else end


def _next(searched: SearchedText, match: re.Match[str]) -> Span | None:
    """Returns the quoted value behind a match, or everything up to the next blank."""
    lower = searched.lower
    start = end_of(_BEFORE_VALUE, lower, match.end())
    value = _quoted(lower, start) or (start, end_of(_TO_BLANK, lower, start))
    return value if value[1] > value[0] else None


def _of_name(searched: SearchedText, match: re.Match[str]) -> Span | None:
    """Returns the next value if the name before it is one of a secret."""
    value = _next(searched, match) if is_secret_name(match["name"]) else None
    if value is None or (match["name"] == "auth" and _METHODS.fullmatch(searched.lower[slice(*value)].strip(_ENDS_WORD + ")`"))):
        return None
    return None if _OWN_CALL.search(searched.lower, max(0, match.start() - 64), match.start()) else value


def _of_element(searched: SearchedText, match: re.Match[str]) -> Span | None:
    return _element_text(searched.lower, match.end()) if is_secret_name(match["name"]) else None


def _of_pair(searched: SearchedText, match: re.Match[str]) -> Span | None:
    if match["sep"] is None or _ABOUT_A_SECRET.fullmatch(match["rest"]):
        return None
    return _element_text(searched.lower, match.end()) if match["sep"] == ">" else _next(searched, match)


def _element_text(lower: str, start: int) -> Span | None:
    before = "<![cdata["
    is_cdata = lower.startswith(before, start)
    start += len(before) if is_cdata else 0
    end = lower.find("]]>" if is_cdata else "<", start)
    end = len(lower) if end < 0 else end
    return (start, end) if end > start else None


_NAME_FORMS: tuple[Form, ...] = (
    (_STEMS, _NAMED, _assigned),
    (("value",), _PAIRED, _of_pair),
    (("<",), _ELEMENT, _of_element),
    ((",",), _ITEM, _of_name),
    (("-",), _FLAG, _of_name),
    ((".",), _SETTING, _of_name),
)
_FORMS: tuple[Form, ...] = (
    (("pass", "identified", "secret", "key_id", "session_token"), _QUOTED_NEXT, _next),
    (("pass", "pwd"), _SAID, _next),
    (("-u", "--", "-p"), _ON_A_COMMAND_LINE, _next),
    *unnamed_secrets.FORMS,
)
