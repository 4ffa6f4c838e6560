"""Runs every example of docs/connect, as a reader would, page by page; or of the pages that are
named as arguments. Pages whose tools are large to install are run only by their names.

A block of a language is run. One whose fence names a file, as in ```python settings.py, is written
to that file, in a folder that the blocks of a page share. A block of text behind a block that was
run is all that it prints. In a table whose first column is `statement` each statement must be
refused with the error in the second column. Ports in the text become those of the tested server."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pymysql

from common import HOST, HTTP_PORT, MYSQL_PORT

TESTS = pathlib.Path(__file__).parent.parent
PAGES = TESTS.parent.parent / "docs" / "connect"
# Blocks that are shown only.
SHOWN = {"xml", "toml", "ini", "yaml", "json", "properties"}
# Pages of scripts/test-ecosystem.sh.
LARGE = {"java-tools", "node-tools", "prisma", "rust"}
BLOCK_SECONDS_MAX = 120


def here(text):
    """The text with the ports of the tested server."""
    return text.replace("9030", str(MYSQL_PORT)).replace("8030", str(HTTP_PORT))


def connect():
    return pymysql.connect(host=HOST, port=MYSQL_PORT, user="root", autocommit=True)


def names_of_mysql():
    """A folder with the names of MySQL's tools, which MariaDB's do not have everywhere."""
    folder = pathlib.Path(tempfile.mkdtemp())
    for name, other in (("mysql", "mariadb"), ("mysqldump", "mariadb-dump")):
        if not shutil.which(name):
            (folder / name).symlink_to(shutil.which(other))
    return folder


TOOLS = names_of_mysql()


def run(command, folder, text=None):
    """What a command prints; fails if it fails."""
    paths = [str(pathlib.Path(sys.executable).parent), os.environ["PATH"], str(TOOLS)]
    done = subprocess.run(
        command, input=text, cwd=folder, capture_output=True, text=True, check=False,
        timeout=BLOCK_SECONDS_MAX,
        env=dict(os.environ, PATH=":".join(paths)))
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Page:
    """The blocks of a page, run in a folder of its own."""

    def __init__(self, path, folder):
        self.folder = folder
        if modules := os.environ.get("MODULES"):
            (folder / "node_modules").symlink_to(modules)
        self.text = here(path.read_text(encoding="utf-8"))
        self.name = path.stem
        self.blocks = 0

    def line_of(self, at):
        return f"{self.name}.md:{self.text.count(chr(10), 0, at) + 1}"

    def check(self):
        with connect() as admin, admin.cursor() as cursor:
            cursor.execute("DROP DATABASE IF EXISTS shop")
            cursor.execute("CREATE DATABASE shop")
        printed = None
        for block in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", self.text, re.MULTILINE):
            language, _, file = block[1].partition(" ")
            try:
                if language == "text":
                    assert printed is not None, "output of nothing"
                    assert printed.strip() == block[2].strip(), f"it printed:\n{printed}"
                    printed = None
                elif file:
                    path = self.folder / file
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(block[2], encoding="utf-8")
                elif language not in SHOWN:
                    self.blocks += 1
                    printed = getattr(self, f"run_{language}")(block[2])
            except (AssertionError, subprocess.TimeoutExpired) as error:
                raise AssertionError(f"{self.line_of(block.start())}: {error}") from error
        self.check_tables()

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run_sh(self, text):
        return run(["bash", "-euo", "pipefail", "-c", text], self.folder)

    def run_sql(self, text):
        client = shutil.which("mariadb") or shutil.which("mysql")
        return run([client, "--no-defaults", "-h", HOST, "-P", str(MYSQL_PORT), "-u", "root",
                    "-t", "shop"], self.folder, text)

    def run_python(self, text):
        return run([sys.executable, self.write("example.py", text)], self.folder)

    def run_js(self, text):
        return run(["node", self.write("example.js", text)], self.folder)

    def run_java(self, text):
        jars = pathlib.Path(os.environ["JARS"]).glob("*.jar")
        # One of the two drivers of MariaDB, which have the same classes.
        jars = [str(jar) for jar in sorted(jars) if not jar.name.startswith("mariadb-java-client-2")]
        # Compiled to files: tools that look classes up by name find none that are in memory.
        path = ":".join([*jars, str(self.folder)])
        run(["javac", "-proc:none", "-cp", path, self.write("Example.java", text)], self.folder)
        return run(["java", "-Xshare:auto", "-cp", path, "Example"], self.folder)

    def run_go(self, text):
        for file in ("go.mod", "go.sum"):
            shutil.copy(TESTS / "go" / file, self.folder)
        return run(["go", "run", self.write("example.go", text)], self.folder)

    def run_rust(self, text):
        """As a program of the crate of the clients, whose dependencies are built."""
        crate = pathlib.Path(os.environ["RUST"]) / "clients"
        example = crate / "src" / "bin" / "example.rs"
        example.parent.mkdir(exist_ok=True)
        example.write_text(text, encoding="utf-8")
        return run(["cargo", "run", "--quiet", "--locked", "--offline", "--bin", "example",
                    "--target-dir", crate.parent], crate)

    def check_tables(self):
        """Statements that must be refused, in rows `| `statement` | number: message | .. |`."""
        tables = re.finditer(r"^\| statement \|.*\n\|[ -|]*\n((?:\|.*\n)*)", self.text, re.MULTILINE)
        for table in tables:
            for row in table[1].splitlines():
                cells = re.split(r"(?<!\\)\|", row)[1:3]
                statement, expected = (cell.strip().replace("\\|", "|") for cell in cells)
                try:
                    self.refused(statement.strip("`"), expected.strip("`"))
                except AssertionError as error:
                    raise AssertionError(f"{self.name}.md: {statement}: {error}") from error
                self.blocks += 1

    def refused(self, statement, expected):
        with connect() as connection, connection.cursor() as cursor:
            connection.select_db("shop")
            try:
                cursor.execute(statement)
            except pymysql.MySQLError as error:
                found = "{}: {}".format(*error.args)
                assert found == expected, f"expected\n{expected}\nfound\n{found}"
                return
        raise AssertionError(f"it is not refused with {expected}")


def main(wanted):
    pages = [page for page in sorted(PAGES.glob("*.md"))
             if page.stem in wanted or not wanted and page.stem not in LARGE]
    assert pages, wanted
    failures = []
    for path in pages:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            page = Page(path, pathlib.Path(folder))
            try:
                page.check()
            except AssertionError as error:
                failures.append(str(error))
        print(f"{path.name}: {page.blocks} examples in {time.monotonic() - began:.1f} s")
    shutil.rmtree(TOOLS)
    assert not failures, "\n\n".join(failures)


main(sys.argv[1:])
