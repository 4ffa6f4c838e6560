"""TLS and compression: PyMySQL, mysql-connector-python, the mariadb command line and curl, with the keys that the
server has generated. The first argument is the data directory, the second the server's process."""

import os
import signal
import subprocess
import sys
import time

import mysql.connector
import pymysql

from common import HOST, HTTP_PORT, MYSQL_PORT, raises

DIR = os.path.join(sys.argv[1], "tls")
CA = os.path.join(DIR, "ca.pem")


def secure(user="root", password="", ca=CA):
    """Checks the certificate of the server and its name."""
    return pymysql.connect(host="localhost", port=MYSQL_PORT, user=user, password=password,
                           ssl_ca=ca, ssl_verify_cert=True, ssl_verify_identity=True)


def plain(user="root", password=""):
    return pymysql.connect(host=HOST, port=MYSQL_PORT, user=user, password=password,
                           ssl_disabled=True)


def one(connection, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def mariadb(*arguments):
    return run("mariadb", "--no-defaults", "-h", HOST, "-P", str(MYSQL_PORT), "-uroot", *arguments)


assert one(plain(), "SHOW STATUS LIKE 'Ssl_cipher'") == ("Ssl_cipher", "")
root = secure()
assert one(root, "SHOW STATUS LIKE 'Ssl_version'") == ("Ssl_version", "TLSv1.3")
name, cipher = one(root, "SHOW STATUS LIKE 'Ssl_cipher'")
assert cipher.startswith("TLS_"), cipher
with root.cursor() as cursor:
    cursor.execute("DROP USER IF EXISTS tls_only")
    cursor.execute("CREATE USER tls_only IDENTIFIED WITH caching_sha2_password BY 'se cret'"
                   " REQUIRE SSL")
secure("tls_only", "se cret")
raises(1045, secure, "tls_only", "wrong")
raises(1045, plain, "tls_only", "se cret")

# It encrypts without being told to, and changes users on the encrypted connection.
pooled = mysql.connector.connect(host=HOST, port=MYSQL_PORT, user="root", use_pure=True)
cursor = pooled.cursor()
cursor.execute("SHOW STATUS LIKE 'Ssl_version'")
assert cursor.fetchone()[1].startswith("TLS")
cursor.close()
pooled.cmd_change_user("tls_only", "se cret")
pooled.close()

# What the command line shows of its connection.
for version in "TLSv1.2", "TLSv1.3":
    status = mariadb("--ssl-ca=" + CA, "--tls-version=" + version, "-e", r"\s")
    line = [line for line in status.stdout.splitlines() if line.startswith("SSL:")]
    assert status.returncode == 0 and "Cipher in use" in line[0], status
status = mariadb("--ssl", "-N", "-e", "SELECT REPEAT('x', 100000)")
assert len(status.stdout.strip()) == 100000, status.stderr

# Compressed, with TLS and without.
large = "SELECT REPEAT('x', 3000000), MD5('noise')"
for tls in "--ssl", "--skip-ssl":
    status = mariadb("-C", tls, "-N", "-e", "SHOW STATUS LIKE 'Compression'; SELECT REPEAT('ab', 9)")
    assert status.stdout.split() == ["Compression", "ON", "ab" * 9], status
    assert len(mariadb("-C", tls, "-N", "--raw", "-e", large).stdout) > 3000000
small = mysql.connector.connect(host=HOST, port=MYSQL_PORT, user="root", use_pure=True,
                                compress=True)
cursor = small.cursor()
for text in "x", "y" * 3000000, "z" * 100:
    cursor.execute("SELECT %s", (text,))
    assert cursor.fetchone() == (text,)
cursor.execute("SHOW STATUS LIKE 'Compression'")
assert cursor.fetchone() == ("Compression", "ON")
small.close()

health = f"https://localhost:{HTTP_PORT}/api/health"
assert run("curl", "-sS", "--cacert", CA, health).returncode == 0
assert run("curl", "-sS", health).returncode != 0, "nobody trusts it unasked"

# Without an encrypted connection nobody gets in, and SIGHUP reads the keys again.
with root.cursor() as cursor:
    cursor.execute("SET GLOBAL require_secure_transport = ON")
raises(3159, plain)
assert mariadb("--ssl", "-e", "SELECT 1").returncode == 0
refused = mariadb("--skip-ssl", "-e", "SELECT 1")
assert "insecure transport" in refused.stderr, refused
with root.cursor() as cursor:
    cursor.execute("SET GLOBAL require_secure_transport = OFF")
key, cert, ca = (os.path.join(DIR, name) for name in ("server-key.pem", "server-cert.pem", "new.pem"))
kept = open(key).read(), open(cert).read()
made = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
           "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2")
assert made.returncode == 0, made
with open(ca, "w") as file:
    file.write(open(cert).read())
os.kill(int(sys.argv[2]), signal.SIGHUP)
for _ in range(100):
    try:
        secure(ca=ca)
        break
    except pymysql.err.OperationalError:
        time.sleep(0.1)
secure(ca=ca)
assert one(root, "SELECT 1") == (1,)
for path, text in zip((key, cert), kept):
    with open(path, "w") as file:
        file.write(text)
os.remove(ca)
with root.cursor() as cursor:
    cursor.execute("ALTER INSTANCE RELOAD TLS")
secure()
print("TLS works")
