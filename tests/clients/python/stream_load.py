"""curl with the lines of the documentation, and what a client of stream load meets beside."""

import json
import pathlib
import subprocess
import tempfile

import pymysql

from common import HOST, HTTP_PORT, MYSQL_PORT, database_of

DATABASE = database_of("stream_load")
FOLDER = tempfile.TemporaryDirectory()
CSV = pathlib.Path(FOLDER.name) / "data.csv"
CSV.write_text("6,Amy,60\n7,Ross,98\n")
GROUPED = {
    "TxnId", "Label", "Comment", "GroupCommit", "Status", "Message", "NumberTotalRows",
    "NumberLoadedRows", "NumberFilteredRows", "NumberUnselectedRows", "LoadBytes", "LoadTimeMs",
    "StreamLoadPutTimeMs", "ReadDataTimeMs", "WriteDataTimeMs",
}

connection = pymysql.connect(host=HOST, port=MYSQL_PORT, user="root", autocommit=True)


def sql(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def load(*headers, path=CSV, table="dt"):
    """One stream load as the documentation writes it; returns the reply."""
    command = ["curl", "--silent", "--show-error", "--max-time", "20", "--location-trusted",
               "-u", "root:", "-T", str(path)]
    for header in headers:
        command += ["-H", header]
    command.append(f"http://{HOST}:{HTTP_PORT}/api/{DATABASE}/{table}/_stream_load")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def loaded(reply, count):
    assert (reply["Status"], reply["Message"]) == ("Success", "OK"), reply
    assert (reply["NumberTotalRows"], reply["NumberLoadedRows"]) == (count, count), reply


sql(f"DROP DATABASE IF EXISTS {DATABASE}")
sql(f"CREATE DATABASE {DATABASE}")
connection.select_db(DATABASE)
sql("CREATE TABLE dt (id INT NOT NULL, name VARCHAR(50), score INT) DUPLICATE KEY(id) "
    "DISTRIBUTED BY HASH(id) BUCKETS 1 PROPERTIES (\"replication_num\" = \"1\")")

for mode in ("async_mode", "sync_mode"):
    reply = load(f"group_commit:{mode}", "column_separator:,")
    loaded(reply, 2)
    assert reply["GroupCommit"] is True and reply["Label"].startswith("group_commit_"), reply
    assert reply["LoadBytes"] == 19 and GROUPED <= set(reply), reply
assert sql("SELECT * FROM dt ORDER BY id") == ((6, "Amy", 60),) * 2 + ((7, "Ross", 98),) * 2

reply = load("column_separator:,", "label:once")
loaded(reply, 2)
assert reply["Label"] == "once" and "GroupCommit" not in reply, reply
again = load("column_separator:,", "label:once")
assert again["Status"] == "Label Already Exists", again
assert again["ExistingJobStatus"] == "FINISHED" and again["NumberLoadedRows"] == 0, again
own = load("group_commit:async_mode", "column_separator:,", "label:own")
assert own["Label"] == "own" and "GroupCommit" not in own, own

loaded(load("column_separator:,", "Transfer-Encoding: chunked"), 2)
turned = pathlib.Path(FOLDER.name) / "turned.csv"
turned.write_text("98;Ada;10\n")
loaded(load("column_separator:;", "columns:score,name,id", path=turned), 1)
assert sql("SELECT * FROM dt WHERE id = 10") == ((10, "Ada", 98),)

bad = pathlib.Path(FOLDER.name) / "bad.csv"
bad.write_text("1,a,1\nx,b,2\n3,c,3\n4,d,4\n")
refused = load("column_separator:,", "strict_mode:true", path=bad)
assert refused["Status"] == "Fail" and refused["NumberFilteredRows"] == 1, refused
url = refused["ErrorURL"]
why = subprocess.run(["curl", "-s", url], capture_output=True, text=True, check=True).stdout
assert "x" in why, why
some = load("column_separator:,", "max_filter_ratio:0.25", "strict_mode:true", path=bad)
assert (some["Status"], some["NumberLoadedRows"], some["NumberFilteredRows"]) == ("Success", 3, 1)

lines = pathlib.Path(FOLDER.name) / "rows.json"
lines.write_text('{"id": 20, "name": "J", "score": 1}\n{"id": 21, "score": null}\n')
loaded(load("format:json", "read_json_by_line:true", path=lines), 2)
assert sql("SELECT * FROM dt WHERE id >= 20 ORDER BY id") == ((20, "J", 1), (21, None, None))

sql("TRUNCATE TABLE dt")
many = pathlib.Path(FOLDER.name) / "many.csv"
many.write_text("".join(f"{i}\tname{i}\t{i % 100}\n" for i in range(200_000)))
loaded(load(path=many), 200_000)
assert sql("SELECT COUNT(*), SUM(id), MAX(name) FROM dt") == ((200_000, 19999900000, "name99999"),)

unknown = load("column_separator:,", table="nope")
assert unknown.get("Status", unknown.get("status")) in ("Fail", "FAILED"), unknown
code = subprocess.run(
    ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", "root:wrong", "-T", str(CSV),
     f"http://{HOST}:{HTTP_PORT}/api/{DATABASE}/dt/_stream_load"],
    capture_output=True, text=True, check=True).stdout
assert code == "401", code
health = subprocess.run(["curl", "-sf", f"http://{HOST}:{HTTP_PORT}/api/health"],
                        capture_output=True, text=True, check=True).stdout
assert json.loads(health)["msg"] == "success", health
metrics = subprocess.run(["curl", "-sf", f"http://{HOST}:{HTTP_PORT}/metrics"],
                         capture_output=True, text=True, check=True).stdout
assert "wal" in metrics
