// What the data source "MySQL" of Grafana sends: lists of databases, tables and columns, macros of
// time, and the kinds of columns that it makes frames of.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

// All rows of a query, values separated by spaces and rows by lines.
func rows(db *sql.DB, query string) string {
	found, err := db.Query(query)
	check(err)
	defer found.Close()
	names, err := found.Columns()
	check(err)
	var lines []string
	for found.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for column := range values {
			into[column] = &values[column]
		}
		check(found.Scan(into...))
		var words []string
		for _, value := range values {
			words = append(words, value.String)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	check(found.Err())
	return strings.Join(lines, "\n")
}

func expect(db *sql.DB, query, wanted string) {
	if found := rows(db, query); found != wanted {
		log.Output(2, fmt.Sprintf("%s:\nwanted\n%s\nfound\n%s", query, wanted, found))
		os.Exit(1)
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	dsn := "root@tcp(127.0.0.1:%s)/client_go?collation=utf8mb4_unicode_ci&parseTime=true&loc=UTC" +
		"&allowNativePasswords=true&time_zone=%%27%%2B00%%3A00%%27"
	db, err := sql.Open("mysql", fmt.Sprintf(dsn, os.Args[1]))
	check(err)
	defer db.Close()
	check(db.Ping())
	for _, statement := range []string{
		"DROP TABLE IF EXISTS requests",
		`CREATE TABLE requests (at DATETIME(3) NOT NULL, unix BIGINT NOT NULL, host VARCHAR(20),
			ms INT, load1 DOUBLE, price DECIMAL(10,2), stamp TIMESTAMP NULL, day DATE, up BOOLEAN)`,
		`INSERT INTO requests VALUES
			('2026-01-01 10:00:00.500', 1767261600, 'a', 10, 0.5, 1.25, '2026-01-01 10:00:00', '2026-01-01', 1),
			('2026-01-01 10:01:00', 1767261660, 'b', 30, NULL, NULL, NULL, NULL, 0),
			('2026-01-01 10:05:00', 1767261900, 'a', 20, 1.5, 2.50, '2026-01-01 10:05:00', '2026-01-01', 1)`,
	} {
		_, err := db.Exec(statement)
		check(err)
	}
	editor(db)
	macros(db)
	kinds(db)
}

// What the editor of queries asks for.
func editor(db *sql.DB) {
	databases := rows(db, `SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES
		where TABLE_TYPE != 'SYSTEM VIEW' ORDER BY TABLE_SCHEMA`)
	if !strings.Contains(databases, "client_go") {
		log.Fatal(databases)
	}
	tables := rows(db, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = 'client_go' ORDER BY table_name`)
	if !strings.Contains(tables, "requests") {
		log.Fatal(tables)
	}
	expect(db, `SELECT column_name, data_type FROM information_schema.columns
		WHERE table_schema = 'client_go' AND table_name = 'requests' ORDER BY column_name`,
		"at datetime\nday date\nhost varchar\nload1 double\nms int\nprice decimal\n"+
			"stamp timestamp\nunix bigint\nup tinyint")
	expect(db, "SELECT @@time_zone", "+00:00")
}

// $__timeFilter, $__timeGroup, $__unixEpochGroup and their relatives, as they expand.
func macros(db *sql.DB) {
	filter := " WHERE at BETWEEN FROM_UNIXTIME(1767261600) AND FROM_UNIXTIME(1767265200)"
	expect(db, `SELECT UNIX_TIMESTAMP(at) DIV 300 * 300 AS "time", host AS metric,
		avg(ms) AS "value" FROM requests`+filter+" GROUP BY 1, 2 ORDER BY 1, 2",
		"1767261600 a 10.0000\n1767261600 b 30.0000\n1767261900 a 20.0000")
	expect(db, `SELECT UNIX_TIMESTAMP(at) as time_sec, ms FROM requests`+filter+
		" ORDER BY UNIX_TIMESTAMP(at) ASC LIMIT 1", "1767261600.500 10")
	expect(db, `SELECT cast(cast(UNIX_TIMESTAMP(at)/(60) as signed)*60 as signed) AS time_sec,
		count(*) FROM requests GROUP BY 1 ORDER BY cast(cast(UNIX_TIMESTAMP(at)/(60) as signed)*60
		as signed)`, "1767261600 1\n1767261660 1\n1767261900 1")
	expect(db, `SELECT unix DIV 300 * 300 AS "time", sum(ms) AS ms FROM requests
		WHERE unix >= 1767261600 AND unix <= 1767265200 GROUP BY 1 ORDER BY unix DIV 300 * 300`,
		"1767261600 40\n1767261900 20")
	expect(db, "SELECT DISTINCT host FROM requests WHERE host IN ('a','c') ORDER BY host", "a")
	// An annotation.
	expect(db, `SELECT unix as time, unix + 60 as timeend, host as text, CONCAT(host, ',up') as tags
		FROM requests WHERE unix BETWEEN 1767261600 AND 1767261601`,
		"1767261600 1767261660 a a,up")
}

// Frames have columns of the kinds that the driver names.
func kinds(db *sql.DB) {
	found, err := db.Query("SELECT *, avg(ms) OVER () AS mean, at AS time FROM requests ORDER BY at")
	check(err)
	defer found.Close()
	types, err := found.ColumnTypes()
	check(err)
	var names []string
	for _, column := range types {
		names = append(names, column.DatabaseTypeName())
	}
	wanted := "DATETIME BIGINT VARCHAR INT DOUBLE DECIMAL TIMESTAMP DATE TINYINT DECIMAL DATETIME"
	if strings.Join(names, " ") != wanted {
		log.Fatal(names)
	}
	if _, scale, ok := types[5].DecimalSize(); !ok || scale != 2 {
		log.Fatal("scale of a price: ", scale)
	}
	if nullable, ok := types[0].Nullable(); !ok || nullable {
		log.Fatal("a time that is NOT NULL is nullable")
	}
	values := make([]any, len(types))
	into := make([]any, len(types))
	for column := range values {
		into[column] = &values[column]
	}
	if !found.Next() {
		log.Fatal("no row")
	}
	check(found.Scan(into...))
	at := time.Date(2026, 1, 1, 10, 0, 0, 500000000, time.UTC)
	if read, ok := values[0].(time.Time); !ok || !read.Equal(at) {
		log.Fatalf("a time is %v", values[0])
	}
}
