"""The transcripts of the documentation through the mysql command line, twice: as printed, under
read_freshness = published, and by default, where rows are there at the reply."""

import pathlib
import re
import shutil
import subprocess

from common import HOST, MYSQL_PORT, database_of

TRANSCRIPT = pathlib.Path(__file__).parent.parent / "transcripts" / "group_commit.txt"
INTERVAL_MS = 1000
CREATE = """CREATE TABLE `dt` (
    `id` int(11) NOT NULL,
    `name` varchar(50) NULL,
    `score` int(11) NULL
) ENGINE=OLAP
DUPLICATE KEY(`id`)
DISTRIBUTED BY HASH(`id`) BUCKETS 1
PROPERTIES (
    "replication_num" = "1"
);"""


def steps():
    """Pairs of a statement and what it must print; (None, None) lets the group end."""
    found = []
    for line in TRANSCRIPT.read_text().splitlines():
        if line.startswith("mysql> "):
            found.append((line.removeprefix("mysql> "), []))
        elif line.startswith("#"):
            if "seconds later" in line:
                found.append((None, None))
        elif line and found:
            found[-1][1].append(line)
    return found


def normal(lines):
    """What is the same in every run: no times, widths or ids, but which ids are equal."""
    seen = {}
    text = re.sub(r"\(\d+\.\d+ sec\)", "(time)", "\n".join(lines))
    text = re.sub(r"-{2,}", "-", text)
    text = re.sub(r" +", " ", text)
    text = re.sub(r"'query_id':'[0-9a-f]{16}-[0-9a-f]{16}'", "'query_id':'id'", text)
    for label in re.findall(r"group_commit_[0-9a-f]{16}[-_][0-9a-f]{16}", text):
        text = text.replace(label, seen.setdefault(label, f"label{len(seen)}"))
    for txn in re.findall(r"'txnId':'(\d+)'", text):
        text = text.replace(f"'{txn}'", seen.setdefault(txn, f"'txn{len(seen)}'"))
    return [line for line in text.splitlines() if line.strip()]


def command_line(script, database=None):
    """What the CLI prints for a script, with -vvv as a terminal would see it."""
    client = shutil.which("mariadb") or shutil.which("mysql")
    command = [client, "--no-defaults", "-h", HOST, "-P", str(MYSQL_PORT), "-uroot", "-t", "-vvv"]
    command += ["--unbuffered"] + ([database] if database else [])
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def printed(output):
    """What each statement printed, in order."""
    parts = re.split(r"^-{14}\n.*?^-{14}\n", output, flags=re.DOTALL | re.MULTILINE)[1:]
    return [part.replace("\nBye", "").strip().splitlines() for part in parts]


def play(freshness, wanted):
    database = database_of(f"transcript_{freshness}")
    command_line(f"DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database};")
    interval = f'ALTER TABLE dt SET ("group_commit_interval_ms" = "{INTERVAL_MS}");'
    script = [CREATE, interval, f"SET read_freshness = '{freshness}';"]
    for statement, _ in wanted:
        script.append(statement or f"\\! sleep {INTERVAL_MS / 1000 + 0.5}")
    answers = printed(command_line("\n".join(script), database))[3:]
    statements = [step for step in wanted if step[0]]
    assert len(answers) == len(statements), answers
    said = [line for answer in answers for line in answer]
    expected = [line for _, lines in statements for line in lines]
    said = [line for line in normal(said) if line != "Query OK, 0 rows affected (time)"]
    assert said == normal(expected), f"{freshness}:\n" + "\n".join(said)


as_printed = steps()
play("published", as_printed)

at_once = list(as_printed)
for place, (statement, lines) in enumerate(at_once):
    if lines and lines[0].startswith("Empty set"):
        at_once[place] = (statement, at_once[place + 2][1])
play("committed", at_once)
