"""The location of a store, as `--state` names it."""

from __future__ import annotations

from importlib.util import find_spec

import sqlalchemy as sa

from tiering.errors import InvalidArgument, SetupError
from tiering.extras import install_hint
from tiering.redaction.redact import remember_secrets

_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")


def postgresql_url(text: str) -> str:
    """Returns SQLAlchemy's URL of `postgresql://[user[:password]@][host][:port]/database[?parameter=...]`, with libpq's parameters.

    From now on its password is masked in all texts. Raises InvalidArgument for another address, SetupError without psycopg.
    """
    remember_secrets({"uri": text})
    try:
        url = sa.make_url(text.strip())
    except sa.exc.ArgumentError:
        url = sa.URL.create("none")
    if url.drivername not in _SCHEMES or not url.database:
        raise InvalidArgument(
            "--state is not the address of a database in PostgreSQL",
            hint="Write it as postgresql://host:5432/database, the user in PGUSER and the password in PGPASSWORD or ~/.pgpass. "
            "Without --state the state is a file in the data folder.",
        )
    if find_spec("psycopg") is None:
        raise SetupError("--state needs the Python package psycopg, which is not installed", hint=install_hint("postgres"))
    return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
