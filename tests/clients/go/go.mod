module freshet.test/clients

go 1.23.0

require (
	github.com/go-sql-driver/mysql v1.8.1
	github.com/pierrec/lz4/v4 v4.1.22
	github.com/uptrace/bun v1.2.15
	github.com/uptrace/bun/dialect/mysqldialect v1.2.15
	gorm.io/driver/mysql v1.6.0
	gorm.io/gorm v1.31.2
	xorm.io/xorm v1.3.11
)

require (
	filippo.io/edwards25519 v1.1.0 // indirect
	github.com/goccy/go-json v0.10.5 // indirect
	github.com/golang/snappy v0.0.4 // indirect
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/syndtr/goleveldb v1.0.0 // indirect
	github.com/tmthrgd/go-hex v0.0.0-20190904060850-447a3041c3bc // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	golang.org/x/mod v0.26.0 // indirect
	golang.org/x/sys v0.34.0 // indirect
	golang.org/x/text v0.21.0 // indirect
	xorm.io/builder v0.3.13 // indirect
)
