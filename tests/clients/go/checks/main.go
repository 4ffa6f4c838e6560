// What programs do with go-sql-driver: prepared statements, transactions, types, errors.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"
)

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func expect(ok bool, format string, args ...any) {
	if !ok {
		log.Output(2, fmt.Sprintf(format, args...))
		os.Exit(1)
	}
}

func count(db *sql.DB) (n int) {
	check(db.QueryRow("SELECT COUNT(*) FROM t").Scan(&n))
	return n
}

// The driver asks for the server's key by itself when the fast path does not let it in.
func passwords(root *sql.DB, port string) {
	for _, plugin := range []string{"caching_sha2_password", "mysql_native_password"} {
		_, err := root.Exec("DROP USER IF EXISTS go_user")
		check(err)
		_, err = root.Exec("CREATE USER go_user IDENTIFIED WITH " + plugin + " BY 'first'")
		check(err)
		login := func(password string) error {
			db, err := sql.Open("mysql", fmt.Sprintf("go_user:%s@tcp(127.0.0.1:%s)/", password, port))
			check(err)
			defer db.Close()
			return db.Ping()
		}
		denied := func(err error) bool {
			var refused *mysql.MySQLError
			return errors.As(err, &refused) && refused.Number == 1045
		}
		expect(denied(login("wrong")), "%s let a wrong password in", plugin)
		check(login("first"))
		check(login("first"))
		_, err = root.Exec("ALTER USER go_user IDENTIFIED WITH " + plugin + " BY 'second'")
		check(err)
		expect(denied(login("first")), "%s let an old password in", plugin)
		check(login("second"))
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	dsn := fmt.Sprintf("root:@tcp(127.0.0.1:%s)/client_go?parseTime=true&group_commit=async_mode",
		os.Args[1])
	db, err := sql.Open("mysql", dsn)
	check(err)
	defer db.Close()
	check(db.Ping())

	_, err = db.Exec("CREATE TABLE t (id BIGINT, name VARCHAR(20), price DOUBLE, at DATETIME(6))")
	check(err)
	var mode string
	check(db.QueryRow("SELECT @@group_commit").Scan(&mode))
	expect(mode == "async_mode", "group_commit of the DSN: %s", mode)

	insert, err := db.Prepare("INSERT INTO t VALUES (?, ?, ?, ?)")
	check(err)
	at := time.Date(2024, 2, 29, 12, 30, 45, 123456000, time.UTC)
	for id := 0; id < 50; id++ {
		result, err := insert.Exec(id, fmt.Sprintf("name%d", id), 0.5*float64(id), at)
		check(err)
		affected, _ := result.RowsAffected()
		expect(affected == 1, "affected %d", affected)
	}
	expect(count(db) == 50, "rows after prepared inserts: %d", count(db))

	var name sql.NullString
	var price float64
	var read time.Time
	row := db.QueryRow("SELECT name, price, at FROM t WHERE id = ? AND name = ?", 7, "name7")
	check(row.Scan(&name, &price, &read))
	expect(name.String == "name7" && price == 3.5 && read.Equal(at), "%v %v %v", name, price, read)

	tx, err := db.Begin()
	check(err)
	_, err = tx.Exec("INSERT INTO t (id) VALUES (?), (?)", 100, nil)
	check(err)
	check(tx.Rollback())
	expect(count(db) == 50, "rows after a rollback: %d", count(db))
	tx, err = db.Begin()
	check(err)
	_, err = tx.Exec("INSERT INTO t (id) VALUES (100)")
	check(err)
	check(tx.Commit())
	expect(count(db) == 51, "rows after a commit: %d", count(db))

	var refused *mysql.MySQLError
	_, err = db.Exec("INSERT INTO t (name) VALUES (?)", "a name of more than twenty")
	expect(errors.As(err, &refused) && refused.Number == 1406, "too long: %v", err)
	_, err = db.Query("SELECT * FROM nope")
	expect(errors.As(err, &refused) && refused.Number == 1146, "no table: %v", err)

	passwords(db, os.Args[1])

	// A context that ends closes the connection; what it had open is rolled back.
	ctx, cancel := context.WithCancel(context.Background())
	tx, err = db.BeginTx(ctx, nil)
	check(err)
	_, err = tx.Exec("INSERT INTO t (id) VALUES (200)")
	check(err)
	cancel()
	time.Sleep(50 * time.Millisecond)
	expect(count(db) == 51, "rows after a cancelled context: %d", count(db))
}
