module freshet.test/clients

go 1.18

require (
	github.com/go-sql-driver/mysql v1.8.1
	github.com/pierrec/lz4/v4 v4.1.22
)

require filippo.io/edwards25519 v1.1.0 // indirect
