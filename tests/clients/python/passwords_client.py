"""Passwords: both plugins, the full exchange of a fresh server, the fast path behind it, changes.

Runs twice against one store, with a restart of the server in between: `first` makes the users,
`again` finds them.
"""

import base64
import sys
import urllib.error
import urllib.request

import mysql.connector
import pymysql

from common import HOST, HTTP_PORT, MYSQL_PORT, raises

USERS = {"pw_sha": "caching_sha2_password", "pw_native": "mysql_native_password", "pw_both": None}


def full(user, password):
    """PyMySQL encrypts the password with the server's key when it is asked for it."""
    connection = pymysql.connect(host=HOST, port=MYSQL_PORT, user=user, password=password,
                                 ssl_disabled=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        assert cursor.fetchone() == (f"{user}@%",)
    connection.close()


def fast(user, password):
    """mysql-connector-python has no RSA: asked for the password it sends it as it is, which the
    server takes on the machine itself."""
    mysql.connector.connect(host=HOST, port=MYSQL_PORT, user=user, password=password,
                            use_pure=True, ssl_disabled=True).close()


def http_status(user, password):
    """What GET /api/bootstrap answers to these credentials."""
    request = urllib.request.Request(f"http://{HOST}:{HTTP_PORT}/api/bootstrap")
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    request.add_header("Authorization", f"Basic {credentials}")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


root = pymysql.connect(host=HOST, port=MYSQL_PORT, user="root", password="")
run = root.cursor().execute
# Wrong ones are many here, and each would wait a second.
run("SET GLOBAL connection_control_failed_connections_threshold = 0")
if sys.argv[1] == "first":
    for name, plugin in USERS.items():
        way = f"WITH {plugin} " if plugin else ""
        run(f"CREATE USER {name} IDENTIFIED {way}BY 'se cret'")

# A fresh server has nothing cached: the first login of `first` is the exchange by RSA, the first
# of `again` the one in the clear.
logins = (full, fast) if sys.argv[1] == "first" else (fast, full)
for name in USERS:
    for login in logins:
        raises(1045, login, name, "wrong")
        raises(1045, login, name, "")
        login(name, "se cret")
        login(name, "se cret")
        raises(1045, login, name, "wrong")
    assert http_status(name, "se cret") == 200
    assert http_status(name, "wrong") == 401
raises(1045, full, "pw_nobody", "se cret")

# A change counts at once, on the fast path too, and leaves what is connected alone.
run("ALTER USER pw_sha IDENTIFIED WITH caching_sha2_password BY 'other'")
raises(1045, fast, "pw_sha", "se cret")
raises(1045, full, "pw_sha", "se cret")
assert http_status("pw_sha", "se cret") == 401
assert http_status("pw_sha", "other") == 200
fast("pw_sha", "other")
run("ALTER USER pw_sha PASSWORD EXPIRE NEVER")
full("pw_sha", "other")
raises(1045, full, "pw_sha", "")

# COM_CHANGE_USER runs a whole exchange of its own, there and back.
pooled = mysql.connector.connect(host=HOST, port=MYSQL_PORT, user="pw_sha", password="other",
                                 use_pure=True)
pooled.cmd_change_user("pw_native", "se cret")
pooled.cmd_change_user("pw_sha", "other")
pooled.close()
run("ALTER USER pw_sha IDENTIFIED WITH caching_sha2_password BY 'se cret'")
raises(1396, run, f"CREATE USER pw_long IDENTIFIED BY '{'x' * 257}'")
