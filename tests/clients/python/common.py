"""What the tests of Python clients share: where the server is, and a fresh database."""

import os

HOST = "127.0.0.1"
MYSQL_PORT = int(os.environ["CLIENT_MYSQL_PORT"])
HTTP_PORT = int(os.environ["CLIENT_HTTP_PORT"])


def database_of(name):
    """The database of one client; each client starts by making it anew."""
    return f"client_{name}"


def raises(errno, call, *args):
    """Checks that a call fails with this MySQL error number."""
    try:
        call(*args)
    except Exception as error:  # every driver has exceptions of its own
        found = getattr(error, "errno", None) or getattr(error, "orig", error).args[0]
        assert found == errno, f"{args}: expected error {errno}, not {error!r}"
        return str(error)
    raise AssertionError(f"{args}: expected error {errno}, and it went well")
