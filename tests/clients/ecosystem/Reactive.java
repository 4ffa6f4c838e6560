import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.R2dbcException;
import java.util.List;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** R2DBC: DDL, parameters, batches, transactions, errors; with the driver that args[0] names. */
public class Reactive {
    public static void main(String[] args) {
        String url = String.format("r2dbc:%s://root@127.0.0.1:%s/client_r2dbc", args[0], args[1]);
        Connection connection = Mono.from(ConnectionFactories.get(url).create()).block();
        execute(connection, "DROP TABLE IF EXISTS t");
        execute(connection, "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(30), price DECIMAL(8,2))");

        var insert = connection.createStatement("INSERT INTO t VALUES (?, ?, ?)");
        for (int id = 0; id < 50; id++) {
            if (id > 0) {
                insert.add();
            }
            insert.bind(0, id).bind(1, "n" + id).bind(2, new java.math.BigDecimal(id).movePointLeft(1));
        }
        Flux.from(insert.execute()).flatMap(result -> result.getRowsUpdated()).blockLast();
        equal(List.of("50 122.50"), rows(connection, "SELECT COUNT(*), SUM(price) FROM t"));

        Mono.from(connection.beginTransaction()).block();
        execute(connection, "DELETE FROM t WHERE id >= 10");
        equal(List.of("10 4.50"), rows(connection, "SELECT COUNT(*), SUM(price) FROM t"));
        Mono.from(connection.rollbackTransaction()).block();
        equal(List.of("50 122.50"), rows(connection, "SELECT COUNT(*), SUM(price) FROM t"));

        var select = connection.createStatement("SELECT id, name FROM t WHERE id < ? ORDER BY id");
        equal(List.of("0 n0", "1 n1", "2 n2"), rows(select.bind(0, 3)));
        try {
            execute(connection, "INSERT INTO t VALUES (1, 'again', 0)");
            throw new AssertionError("a key was stored twice");
        } catch (R2dbcException error) {
            equal(1062, error.getErrorCode());
        }
        Mono.from(connection.close()).block();
    }

    private static void execute(Connection connection, String sql) {
        Flux.from(connection.createStatement(sql).execute())
                .flatMap(result -> result.getRowsUpdated()).blockLast();
    }

    private static List<String> rows(Connection connection, String sql) {
        return rows(connection.createStatement(sql));
    }

    private static List<String> rows(io.r2dbc.spi.Statement statement) {
        return Flux.from(statement.execute())
                .flatMap(result -> result.map((row, about) -> row.get(0) + " " + row.get(1)))
                .collectList().block();
    }

    private static void equal(Object wanted, Object found) {
        if (!wanted.equals(found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }
}
