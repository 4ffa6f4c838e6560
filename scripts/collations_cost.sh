#!/usr/bin/env bash
# What collations cost: queries of a text column by utf8mb4_0900_ai_ci and utf8mb4_general_ci beside
# the same of its copy by bytes, in turn, in one server. 2,000,000 rows of 100,000 texts of ASCII.
#   BEFORE=program   a freshet to measure beside the one just built
#   ROUNDS=n         measured rounds (default 5); a first one is not counted
#   BENCH_BUILT=1    builds nothing
set -euo pipefail
source "$(dirname "$0")/env.sh"

ROUNDS=${ROUNDS:-5}

scripts/setup.sh
[[ -n ${BENCH_BUILT:-} ]] || build_release
source scripts/bench_peers.sh
need mysql mariadb-client

# Names and queries, in which TEXT stands for the column. A line goes on behind a backslash.
queries() {
    cat <<'END'
GROUP BY|SELECT MAX(LENGTH(t)), MAX(n) FROM (SELECT TEXT t, COUNT(*) n FROM facts GROUP BY TEXT) x
GROUP BY, two keys|SELECT MAX(LENGTH(t)), MAX(n) \
  FROM (SELECT TEXT t, k, COUNT(*) n FROM facts GROUP BY TEXT, k) x
DISTINCT|SELECT MAX(LENGTH(t)) FROM (SELECT DISTINCT TEXT t FROM facts) x
COUNT(DISTINCT)|SELECT COUNT(DISTINCT TEXT) FROM facts
MIN, MAX|SELECT MIN(TEXT), MAX(TEXT) FROM facts
MIN, MAX of 1,000 groups|SELECT COUNT(a), COUNT(b) \
  FROM (SELECT MIN(TEXT) a, MAX(TEXT) b FROM facts GROUP BY k) x
MIN of 100,000 groups|SELECT COUNT(a) FROM (SELECT MIN(TEXT) a FROM facts GROUP BY TEXT) x
join with 100,000 rows|SELECT COUNT(*), SUM(names.n) \
  FROM facts JOIN names ON facts.TEXT = names.TEXT
join with itself|SELECT COUNT(*) FROM facts a JOIN facts b ON a.TEXT = b.TEXT WHERE b.k < 50
IN (SELECT)|SELECT COUNT(*) FROM facts WHERE TEXT IN (SELECT TEXT FROM names WHERE n % 7 = 0)
ORDER BY LIMIT|SELECT TEXT, n FROM facts ORDER BY TEXT, n LIMIT 10
ORDER BY of 100,000 rows|SELECT MAX(r) \
  FROM (SELECT ROW_NUMBER() OVER (ORDER BY TEXT) r FROM names) x
=|SELECT COUNT(*) FROM facts WHERE TEXT = 'userd3d9446802'
<|SELECT COUNT(*) FROM facts WHERE TEXT < 'n'
IN|SELECT COUNT(*) FROM facts WHERE TEXT IN ('userd3d9446802', 'Namex', 'usery', 'userz1', 'e')
LIKE|SELECT COUNT(*) FROM facts WHERE TEXT LIKE '%ab1%'
LIKE of a start|SELECT COUNT(*) FROM facts WHERE TEXT LIKE 'userab%'
=, rows in order|SELECT COUNT(*) FROM logs WHERE TEXT = '2024-03-11 event 1200'
between, rows in order|SELECT COUNT(*) FROM logs WHERE TEXT BETWEEN '2024-03-11' AND '2024-03-12'
END
}

tables() {
    local texts="b VARCHAR(30) COLLATE utf8mb4_bin, c VARCHAR(30) COLLATE utf8mb4_0900_ai_ci,
        g VARCHAR(30) COLLATE utf8mb4_general_ci"
    cat <<END
CREATE DATABASE collations;
USE collations;
CREATE TABLE digits (d INT PRIMARY KEY);
INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
CREATE TABLE numbers (n INT PRIMARY KEY);
INSERT INTO numbers SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d
  FROM digits a, digits b, digits c, digits d, digits e;
CREATE TABLE names (n INT PRIMARY KEY, $texts);
INSERT INTO names SELECT n, t, t, t FROM (
  SELECT n, CONCAT(IF(n % 3 = 0, 'Name', 'user'), SUBSTRING(MD5(n), 1, 8 + n % 9)) t
  FROM numbers) x;
CREATE TABLE facts (n INT, k INT, $texts);
INSERT INTO facts SELECT names.n, names.n % 1000, b, c, g
  FROM names, digits, (SELECT 0 d UNION ALL SELECT 1) y
  ORDER BY MD5(names.n * 20 + digits.d * 2 + y.d);
CREATE TABLE logs (n INT, $texts);
INSERT INTO logs SELECT n, t, t, t FROM (
  SELECT n + 100000 * d n, CONCAT(DATE_ADD('2024-01-01', INTERVAL (n + 100000 * d) DIV 10000 DAY),
    ' event ', n % 10000) t FROM numbers, digits) x ORDER BY n;
END
}

client() { mysql --protocol=tcp --host=127.0.0.1 --port="$1" --user=root "${@:2}"; }

port() { sed 's,.*@127.0.0.1:\([0-9]*\)/.*,\1,' <<<"${TARGETS[$1]}"; }

# The seconds of each query by each column, a line for each.
round() {
    # shellcheck disable=SC2162
    queries | while IFS='|' read _ query; do
        for column in b c g; do echo "${query//TEXT/$column};"; done
    done | client "$(port "$1")" -vvv collations |
        sed -n 's/.*\(set\|Empty set\).*(\([0-9.]*\) sec).*/\2/p'
}

# Medians of the rounds, and ratios to the column by bytes.
report() {
    queries | sed -n 's/|.*//p' >"$BENCH_FOLDER/names"
    printf '\n%s\n\n| query | bytes, ms | 0900_ai_ci | general_ci |\n' "$1"
    echo '| --- | --: | --: | --: |'
    awk -v rounds="$ROUNDS" '
        function median(line,   i, j, t, of) {
            for (i = 1; i <= rounds; i++) of[i] = seconds[i, line]
            for (i = 1; i <= rounds; i++) for (j = i + 1; j <= rounds; j++)
                if (of[j] < of[i]) { t = of[i]; of[i] = of[j]; of[j] = t }
            return of[int((rounds + 1) / 2)]
        }
        FNR == NR { name[FNR] = $0; next }
        FNR == 1 { round++ }
        { seconds[round, FNR] = $1 }
        END { for (at = 1; at in name; at++) {
            bytes = median(3 * at - 2)
            if (bytes == 0) bytes = 0.0005
            printf "| `%s` | %d | %.2f | %.2f |\n", name[at], 1000 * bytes,
                median(3 * at - 1) / bytes, median(3 * at) / bytes
        } }' "$BENCH_FOLDER/names" "$BENCH_FOLDER/seconds.$1".*
}

start freshet freshet
[[ -z ${BEFORE:-} ]] || SERVER="$BEFORE" start before freshet
for server in "${!TARGETS[@]}"; do
    say "loading $server"
    tables | client "$(port "$server")"
done
for turn in $(seq 0 "$ROUNDS"); do
    for server in "${!TARGETS[@]}"; do
        round "$server" >"$BENCH_FOLDER/seconds.$server.$turn"
    done
done
rm "$BENCH_FOLDER"/seconds.*.0
for server in "${!TARGETS[@]}"; do
    report "$server"
done
