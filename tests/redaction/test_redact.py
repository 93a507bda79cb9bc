"""The redactor: forms in which secrets were met, texts that must stay readable, cuts, and time that grows with the text alone."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiering.redaction import known_secrets
from tiering.redaction.known_secrets import MAX_SECRETS, KnownSecrets, environment_secrets, secrets_among
from tiering.redaction.redact import (
    MASK,
    MESSAGE_LIMIT,
    cut_message,
    is_public_property,
    outside_text,
    redact,
    redact_named,
    redact_property,
)
from tiering.redaction.secret_forms import is_secret_name

S = "hunter2Xq9"
"""The secret of every form: it must not be in what is shown."""
LONG = "Zk3" * 14
"""For shapes that need many characters; letters and digits without any meaning."""
BASIC = b64encode(f"me:{S}".encode()).decode()
NESTED = json.dumps({"password": f'a"{S}'})
PEM_BODY = f"MIIE{LONG}\n{LONG}"

FORMS = (
    # names and signs
    f"spark.hadoop.fs.s3a.secret.key {S}",
    f"fs.s3a.access.key   {S}",
    f"password={S}",
    f"password: {S}",
    f"PASSWORD={S}",
    f"passwd={S}",
    f"pwd={S};",
    f"passphrase={S}",
    f"ssh passphrase: {S}",
    f"passcode={S}",
    f"db_pass={S}",
    f"pass={S}",
    f"password => {S}",
    f"password := {S}",
    f"password == {S}",
    f"secret={S}",
    f"client_secret={S}",
    f"clientSecret={S}",
    f"s3.secret-access-key={S}",
    f"credential={S}",
    f"credential: id:{S}",
    f"token={S}",
    f"accessToken: {S}",
    f"refresh_token={S}",
    f"FOO_TOKEN={S}",
    f"export GITHUB_TOKEN={S}",
    f"PGPASSWORD={S} psql",
    f"api_key={S}",
    f"apikey={S}",
    f"x-api-key: {S}",
    f"X-Vault-Token: {S}",
    f"AccountKey={S}==;EndpointSuffix=core.windows.net",
    f"adls.account-key={S}",
    f"SharedAccessKey={S}",
    f"SharedAccessSignature={S}",
    f"private_key={S}",
    f"encryption.key={S}",
    f"aws_access_key_id={S}",
    f"_authToken={S}",
    f"_auth={S}",
    f"sse.key={S}",
    # values with signs in them
    f"password=a/{S}",
    f"password=a@{S}",
    f"password=a,{S}",
    f"password=a;{S}",
    f"password=a&{S}",
    f"password=a'{S}",
    f"password=a){S}",
    f"could not connect: user=me password=a,{S} host=h",
    f'password="a {S}"',
    f"password='a {S}'",
    f"password='it''s {S}'",
    f'password="a\\"{S}"',
    f"password=`{S}`",
    f"password=b'{S}'",
    f"password=SecretStr('{S}')",
    f'password="""a"{S}"""',
    f"passwords=[a, {S}]",
    f"credentials: {{user: me, key: {S}}}",
    f"password: a {S}\nuser: me",
    f"password=a {S}\nuser=me",
    # quotes that never close
    f'{{"password": "{S} and so on',
    f"password='{S} and so on",
    # several lines
    f"password: |\n  first\n  {S}\nuser: me",
    f"password:\n  {S}\nuser: me",
    f"passwords:\n- a\n- {S}\nuser: me",
    f'password="first\n{S}"',
    # JSON, also within JSON
    f'{{"password": "{S}", "user": "me"}}',
    f'{{"password":"{S}"}}',
    f"{{'password': '{S}'}}",
    json.dumps({"body": json.dumps({"password": S})}),
    json.dumps({"body": NESTED}),
    json.dumps({"body": json.dumps({"body": NESTED})}),
    f'{{"name": "password", "value": "{S}"}}',
    f"{{\\u0022password\\u0022:\\u0022{S}\\u0022}}",
    f'{{"secrets": {{"a": "{S}"}}}}',
    # XML
    f"<password>{S}</password>",
    f'<password type="text">a {S}</password>',
    f"<password><![CDATA[a<{S}]]></password>",
    f"<name>fs.s3a.secret.key</name><value>{S}</value>",
    f"<name>fs.s3a.secret.key</name>\n  <value>{S}</value>",
    f'<add key="password" value="{S}"/>',
    f"&lt;password&gt;{S}&lt;/password&gt;",
    f"&quot;password&quot;:&quot;{S}&quot;",
    # percent-encoded
    f"password%3D{S}",
    f"password%253D{S}",
    f"%22password%22%3A%20%22a%20{S}%22",
    f"?password=a%20{S}&user=me",
    quote(f"postgresql://me:{S}@host/db", safe=""),
    # headers
    f"Authorization: Bearer {S}",
    f"Authorization: Basic {BASIC}",
    f"Authorization: {S}",
    f'Authorization: Digest username="me", response="{S}"',
    f"authorization: AWS4-HMAC-SHA256 Credential=a, Signature={S}",
    f"{{'Authorization': 'Bearer {S}'}}",
    f"[('Authorization', 'Token {S}')]",
    f"[(b'authorization', b'{S}')]",
    f"Cookie: a=b; session={S}",
    f"Set-Cookie: session={S}; Path=/",
    f"sent Bearer {S}",
    f"sent Basic {BASIC}",
    f"Proxy-Authorization: Basic {BASIC}",
    # URLs
    f"https://me:{S}@host/x",
    f"https://{S}@host/x",
    f"postgresql://me:a/{S}@host/db",
    f"postgresql://me:a@{S}@host/db",
    f"postgresql://me:a?{S}@host/db",
    f"postgresql+psycopg://me:{S}@host:5432/db",
    f"https:\\/\\/me:{S}@host",
    f"('http://me:{S}@host', 'b')",
    f"https://bucket.s3.amazonaws.com/a?X-Amz-Credential={S}&X-Amz-Signature={S}",
    f"https://a.blob.core.windows.net/c?sv=2020&sig={S}%3D&se=1",
    f"https://storage.googleapis.com/b/o?GoogleAccessId={S}&Signature={S}",
    f"https://h/?access_token={S}&a=b",
    f"?sp=rw&sig={S}",
    # JDBC and its like
    f"jdbc:mysql://me:{S}@host/db",
    f"jdbc:sqlserver://host;user=me;password={S};encrypt=true",
    f"jdbc:postgresql://host/db?user=me&password={S}",
    f"jdbc:oracle:thin:me/{S}@host:1521/db",
    f"me:{S}@tcp(host:3306)/db",
    f"Server=h;Uid=me;Pwd={S};",
    f'org.apache.kafka.PlainLoginModule required username="me" password="{S}";',
    # command lines, SQL
    f"--password {S}",
    f"--password={S}",
    f"--secret-key '{S}'",
    f"-token {S} --user me",
    f"['--password', '{S}']",
    f"mysql -u me -p{S} db",
    f"sshpass -p {S} ssh host",
    f"curl -u me:{S} https://host",
    f"CREATE USER me IDENTIFIED BY '{S}'",
    f"ALTER USER me PASSWORD '{S}'",
    f"CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET '{S}')",
    f"machine host login me password {S}",
    f"the password is {S}",
    f"tried with password {S}",
    f"secret -> {S}",
    f"pass-phrase: {S}",
    f"Passwort={S}",
    f"client_assertion={S}",
    f"fs.azure.sas.container.account={S}",
    f"os.environ['DB_PASSWORD'] = '{S}'",
    # look-alikes and characters that cannot be seen
    f"p\u0430ssword={S}",
    f"\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44={S}",
    f"pass\u200bword={S}",
    f"password\u200b={S}",
    f"pass%77ord={S}",
    f"\U0001d429assword={S}",
)

SHAPES = (
    "eyJ" + f"hbGciOi{LONG}.eyJzdWIi{LONG}.{LONG}",
    "AK" + "IA" + "IOSFODNN7EXAMPLE",
    "AS" + "IA" + "IOSFODNN7EXAMPLE",
    "gh" + f"p_{LONG}",
    "gh" + f"s_{LONG}",
    "github" + f"_pat_{LONG}",
    "gl" + f"pat-{LONG}",
    "xo" + f"xb-{LONG}",
    "AI" + f"za{LONG}",
    "ya" + f"29.{LONG}",
    "sk" + f"_live_{LONG}",
    "hv" + f"s.{LONG}",
    "np" + f"m_{LONG}",
    "dap" + "i" + "0123456789abcdef" * 2,
    "SG" + f".{LONG}.{LONG}",
    "Zk3+" * 21 + "Zk==",
    "https://hooks.slack.com" + "/services/T0/B0/" + LONG,
    "-----BEGIN RSA PRIVATE KEY-----\n" + PEM_BODY + "\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\\n" + PEM_BODY.replace("\n", "\\n") + "\\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n" + PEM_BODY,
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + PEM_BODY + "\n-----END PGP PRIVATE KEY BLOCK-----",
    "-----BEGIN PGP MESSAGE-----\n\n" + PEM_BODY,
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n" + PEM_BODY,
    "-----BEGIN%20PRIVATE%20KEY-----" + PEM_BODY,
    "AGE-SECRET" + "-KEY-1" + LONG.upper(),
)

HARMLESS = (
    "the token expired at 10:30",
    "token: expired",
    "secret santa came",
    "the secretary: Bob",
    "passwordless=true",
    "tokenizer: standard",
    "password is required",
    "password was wrong at 10:30",
    "password: missing",
    "password=None",
    "token_id = 5",
    "token_count=12345678",
    "unexpected token: '}'",
    "token = 12",
    'Binder Error: column "key" not found, candidates: "token_id", "name"',
    "Catalog Error: key = 5 is no column of sales.orders",
    "the column token_id of sales.orders is BIGINT: it cannot be compared with 'x'",
    "columns: ['id', 'token', 'name']",
    "the primary key: id",
    "bucket key: customer_id, partition key: day",
    "primary_key=order_id bucket_keys=[a, b]",
    "snapshot 4812345678901234567 of sales.orders, epoch 17, offset 9223372036854775807",
    "round 7f1c9e64-5717-4562-b3fc-2c963f66afa6 of db.t",
    "round_id=7f1c9e6457174562b3fc2c963f66afa6",
    "/data/lake/sales/orders/data/00000-0-7f1c9e64-5717-4562-b3fc-2c963f66afa6.parquet",
    "s3://bucket/warehouse/sales/orders/metadata/00001-abc.metadata.json",
    "abfss://container@account.dfs.core.windows.net/path",
    "https://catalog:8181/v1/namespaces/a@b",
    "hdfs://nn1:8020,nn2:8020/user/a@b",
    "lakeward://127.0.0.1:7707",
    "https://host/path?email=me@example.org",
    "mail to me@example.org: it is urgent",
    "git@github.com:apache/iceberg.git",
    "file:///data/a@b.csv",
    "at 10:30:00, 5 tables: sales.orders@17",
    "Basic authentication failed",
    "Bearer token is missing",
    "NoSuchTableError: Table does not exist: ('sales', 'orders')",
    "CommitFailedException: branch main has changed: expected id 1, found 2",
    "TableAlreadyExistsError: a=b, c:d; e=>f",
    "java.lang.IllegalStateException: key cannot be null",
    "Signature of the function: not known",
    "--format csv --output file --wait",
    "a < b and c > d <br> <table>x</table>",
    "100% of 20 splits, 3 & 4",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "übergröße der Straße: 中文 Ελληνικά привет",
    "credentials-provider=InstanceProfile",
    "password_file=/run/secrets/db",
    "the table shop.user_tokens has 12 columns",
    "shop.secrets shop.orders_2024 shop.tokens",
    "CALL sys.reconcile_lake('shop.secrets', 'retier') makes it anew",
    "CALL sys.skip_record('shop.api_keys', 3, 12345, reason => '...') leaves it out",
)


WORDS = ("password", "pwd", "secret", "token", "access_key", "access key", "authorization", "cookie", "key", "pass", "auth")
SIGNS = (
    "=",
    ":",
    " ",
    ",",
    "'",
    '"',
    "\\",
    "=>",
    "%3D",
    "<",
    ">",
    "</",
    "&",
    "?",
    "@",
    "://",
    "-----BEGIN ",
    "-----",
    "\n ",
    "[",
    "{",
    "(",
    "--",
    "\u200b",
    "\u0430",
)
WORST = (
    *WORDS,
    *SIGNS,
    *(word + sign for word in WORDS for sign in ("=", ": x ", "='", " ", "value", "\n", ",", '"')),
    *("eyJ", "eyJ.", "AKIA", "sk-", "basic aaaa", "bearer ", "mysql -", "mysql ", "curl -u a", "login a ", "a:b@tcp(", "jdbc:oracle:a:"),
    *("://a:", "://a@", "://a:1/", "-----begin x-----", "<a ", "&quot;", "\\u0022", "\\x", "%25", '\\\\"', "a.", "sig=", "?x-amz-a"),
)
"""Beginnings of every pattern, repeated: what a search would take up again and again."""


@pytest.mark.parametrize("text", FORMS)
def test_a_secret_is_masked_in_every_form(text: str) -> None:
    shown = redact(text)
    assert S not in shown
    assert BASIC not in shown
    assert MASK in shown


@pytest.mark.parametrize("text", SHAPES)
def test_what_looks_like_a_secret_is_masked_without_a_name(text: str) -> None:
    shown = redact(f"cannot use {text}")
    assert shown == redact(shown)
    assert LONG not in shown
    assert "0123456789abcdef" not in shown
    assert "EXAMPLE" not in shown
    assert "Zk3+Zk3" not in shown
    assert shown.startswith("cannot use ")


def test_there_are_enough_forms() -> None:
    assert len(FORMS) >= 120
    assert len(set(FORMS)) == len(FORMS)


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_texts_stay_readable(text: str) -> None:
    assert redact(text) == text
    assert outside_text(text) == text


AROUND = ("a\n{}\nb", '{{"message": "{}"}}', "cannot open the lake: {}", "({})", "x {} y")
BEGINS_A_LINE = (f"password: a {S}", f"password=a {S}", "password: |", "passwords:\n")
"""Files of settings: what the value is depends on where its line begins."""


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("around", AROUND)
def test_what_stands_around_a_secret_does_not_uncover_it(text: str, around: str) -> None:
    if text.startswith(BEGINS_A_LINE) and around not in AROUND[:2]:
        around = AROUND[0]
    inner = json.dumps(text)[1:-1] if around.startswith("{{") else text
    assert S not in redact(around.format(inner))


def test_what_stands_behind_a_masked_value_is_still_shown() -> None:
    assert redact('{"password": "a b", "user": "me"}') == '{"password": "***", "user": "me"}'
    assert redact("open failed: password=x, user=me (host h)") == "open failed: password=***, user=me (host h)"
    assert redact("postgresql://me:x@host/db is down") == "postgresql://***@host/db is down"
    assert redact("Authorization: Bearer abc.def, status 401") == "Authorization: ***, status 401"
    assert redact("<a><password>x</password><b>y</b></a>") == "<a><password>***</password><b>y</b></a>"
    assert redact("jdbc:oracle:thin:me/x@host:1521/db") == "jdbc:oracle:thin:***@host:1521/db"
    assert redact(json.dumps({"body": json.dumps({"token": "abc", "b": 1}), "c": 2})) == (
        json.dumps({"body": json.dumps({"token": "***", "b": 1}), "c": 2})
    )


@pytest.mark.parametrize("text", [*FORMS, *SHAPES])
@pytest.mark.parametrize("limit", [60, MESSAGE_LIMIT])
def test_a_cut_lets_no_part_of_a_secret_through(text: str, limit: int) -> None:
    """Wherever the cut falls, before, within or behind the secret, no four characters of it are shown."""
    parts = {S[start : start + 4] for start in range(len(S) - 3)}
    for start in (limit - len(text), limit - 4, limit - 30, limit * 4 - 4, limit * 4 - len(text) // 2):
        shown = outside_text("x" * (max(start, 0) - 1) + "\n" + text + "\n" + "y" * 20_000, limit)
        assert len(shown) <= limit
        assert not [part for part in parts if part in shown]
        assert LONG not in shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:" + S * 4_000 + "@host/db",
        "jdbc:oracle:thin:me/" + S * 4_000 + "@host",
        "password='" + (S + " ") * 4_000 + "'",
        "-----BEGIN PRIVATE KEY-----\n" + (S + "\n") * 4_000 + "-----END PRIVATE KEY-----",
        "<password>" + (S + " ") * 4_000 + "</password>",
    ],
)
def test_a_secret_longer_than_what_is_looked_at_is_masked(text: str) -> None:
    assert S not in outside_text(text)
    assert S not in redact(text)


def test_a_message_has_no_control_characters_and_is_cut() -> None:
    assert outside_text("a\x1b[31mb\x9bc\u202ed\u200be\x0bf\rg\ud800h\u2028i\x00") == (
        "a\\x1b[31mb\\x9bc\\u202ed\\u200be\\x0bf\\rg\\ud800h\\u2028i\\x00"
    )
    assert outside_text("two\nlines\tof text") == "two\nlines\tof text"
    shown = outside_text("\x1b" * 100_000)
    assert len(shown) == MESSAGE_LIMIT
    assert shown.endswith("…")


def test_known_secrets_are_masked_in_all_their_forms() -> None:
    secret = 'k9/"ä+ p&<x'
    known = KnownSecrets()
    known.add(secret, "short")
    for text in (
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        repr(secret),
        secret.encode().hex(),
    ):
        assert [text[start:end] for start, end in known.spans(f"x{text}y"[1:-1])], text
    for prefix in ("", "m", "me", "me:", "user:"):
        encoded = b64encode((prefix + secret).encode()).decode()
        [(start, end)] = known.spans(encoded)
        assert end - start >= len(encoded) - len(b64encode(prefix.encode())) - 4
    assert not list(known.spans("short"))


def test_known_secrets_are_bounded_and_start_from_environment_and_properties() -> None:
    known = KnownSecrets()
    known.add(*(f"secret-number-{number:06}" for number in range(2 * MAX_SECRETS)))
    assert len(list(known.spans(" ".join(f"secret-number-{number:06}" for number in range(2 * MAX_SECRETS))))) == MAX_SECRETS
    environment = {"PWD": "/home/someone", "MY_TOKEN": S, "URI": f"postgres://me:p%40{S}@h/d", "TOKEN_FILE": "/run/secrets/x"}
    assert set(environment_secrets(environment)) == {S, f"p%40{S}", f"p@{S}"}
    properties = {
        "header.Authorization": f"Bearer {LONG}",
        "warehouse": "s3://bucket/with-a-long-name-1",
        "uri": "http://h:8181",
        "x": LONG,
    }
    assert set(secrets_among(properties, ("warehouse", "uri"))) == {f"Bearer {LONG}", LONG}


def test_a_known_secret_that_is_a_word_leaves_longer_words_readable() -> None:
    known = KnownSecrets()
    known.add("postgres")
    assert not list(known.spans("cannot connect to postgresql://db/lake or Xpostgres"))
    for text in ("postgres", "user:postgres@h", "a\\npostgres", "p%3Dpostgres%26", "'postgres'", "postgres_1", "\\u003dpostgres"):
        assert len(list(known.spans(text))) == 1, text


def test_where_a_secret_lies_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownSecrets()
    monkeypatch.setattr(known_secrets, "KNOWN", known)
    monkeypatch.setenv("PASSWORD_STORE_DIR", str(tmp_path))
    monkeypatch.setenv("MY_SECRET_KEY", f"/{LONG}")
    known_secrets.remember_environment()
    assert not list(known.spans(f"cannot read {tmp_path}/lake"))
    assert list(known.spans(f"key /{LONG}"))


def test_secrets_of_a_key_file_are_masked_line_by_line() -> None:
    known = KnownSecrets()
    known.add(f"-----BEGIN PRIVATE KEY-----\n{LONG}\n{LONG[::-1]}\n-----END PRIVATE KEY-----")
    assert len(list(known.spans(f"read {LONG} and {LONG[::-1]}"))) == 2


@pytest.mark.parametrize(
    "name",
    [
        "s3.secret-access-key",
        "token",
        "header.Authorization",
        "adls.account-key",
        "s3.access-key-id",
        "gcs.oauth2.token",
        "db_password",
        "credential",
    ],
)
def test_names_of_secrets_are_known_and_not_public(name: str) -> None:
    assert is_secret_name(name)
    assert is_secret_name(name.upper())
    assert not is_public_property(name)
    assert redact_property(name, "x") == MASK
    assert redact_named(name, "x") == MASK


@pytest.mark.parametrize("name", ["table_name", "bucket_key", "primary_key", "idempotency_key", "token_id", "key", "author", "page_count"])
def test_names_of_columns_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)
    assert redact_named(name, "abc") == "abc"


def test_a_property_is_public_by_its_name_alone() -> None:
    assert redact_property("warehouse", "s3://bucket/x") == "s3://bucket/x"
    assert redact_property("uri", f"postgresql://me:{S}@h/d") == "postgresql://***@h/d"
    assert redact_property("header.X-Custom", "abc") == MASK


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*"asx=:'\"\\ \n\t&%3D@/,;{}[]()<>-_.n", *WORDS, *SIGNS, "eyJ", "value", S]), max_size=40).map("".join))
def test_masking_again_changes_nothing_that_was_clean_and_never_fails(text: str) -> None:
    shown = redact(text)
    assert len(cut_message(shown, 20)) <= 20
    if shown == text:
        assert redact(text) == text
    outside_text(text, 20)


def test_the_time_is_linear_in_texts_made_to_be_slow() -> None:
    """Four times the text takes about four times as long: ten times for a wide margin, where a square would take sixteen."""
    slow = []
    for unit in WORST:
        short, long = (_cpu_seconds(unit, size) for size in (60_000, 240_000))
        if long > max(10 * short, 0.1):
            slow.append((unit, short, long))
    assert not slow


def _cpu_seconds(unit: str, size: int) -> float:
    text = unit * (size // len(unit))
    begun = time.process_time()
    redact(text)
    return time.process_time() - begun
