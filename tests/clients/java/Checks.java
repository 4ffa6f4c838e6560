import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;

/** What programs do with drivers of JDBC: types both ways, batches, transactions, metadata, cursors. */
public class Checks {
    private static final String URL = "jdbc:%s://127.0.0.1:%s/client_java?useSSL=false"
            + "&allowPublicKeyRetrieval=true&useCursorFetch=true&useServerPrepStmts=%s";

    public static void main(String[] args) throws Exception {
        for (String prepared : new String[] {"true", "false"}) {
            String url = String.format(URL, args[1], args[0], prepared);
            try (Connection connection = DriverManager.getConnection(url, "root", "")) {
                run(connection);
                passwords(connection, url);
            }
        }
    }

    /** The full exchange with the server's key, the fast path behind it, and changes. */
    private static void passwords(Connection root, String url) throws SQLException {
        for (String plugin : new String[] {"caching_sha2_password", "mysql_native_password"}) {
            execute(root, "DROP USER IF EXISTS java_user");
            execute(root, "CREATE USER java_user IDENTIFIED WITH " + plugin + " BY 'first'");
            execute(root, "GRANT SELECT ON client_java.* TO java_user");
            denied(url, "wrong");
            for (int login = 0; login < 2; login++) {
                DriverManager.getConnection(url, "java_user", "first").close();
            }
            execute(root, "ALTER USER java_user IDENTIFIED WITH " + plugin + " BY 'second'");
            denied(url, "first");
            DriverManager.getConnection(url, "java_user", "second").close();
        }
    }

    private static void denied(String url, String password) throws SQLException {
        try {
            DriverManager.getConnection(url, "java_user", password).close();
        } catch (SQLException error) {
            equal(1045, error.getErrorCode());
            return;
        }
        throw new AssertionError("let in with the password " + password);
    }

    private static void run(Connection connection) throws SQLException {
        execute(connection, "DROP TABLE IF EXISTS typed");
        execute(connection, "CREATE TABLE typed (id INT NOT NULL, big BIGINT, price DECIMAL(12,2), "
                + "ratio DOUBLE, name VARCHAR(30), day DATE, at DATETIME(3), raw VARBINARY(8), "
                + "flag BOOLEAN)");
        types(connection);
        batch(connection);
        transaction(connection);
        metadata(connection);
        cursor(connection);
        errors(connection);
    }

    private static void types(Connection connection) throws SQLException {
        Timestamp at = Timestamp.valueOf("2024-02-29 23:59:58.123");
        byte[] raw = {0, -1, 39, 92};
        String insert = "INSERT INTO typed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setInt(1, 1);
            statement.setLong(2, Long.MIN_VALUE);
            statement.setBigDecimal(3, new BigDecimal("-1234567890.12"));
            statement.setDouble(4, 0.1);
            statement.setString(5, "it's \"\u00fc\" \\");
            statement.setDate(6, Date.valueOf("2024-02-29"));
            statement.setTimestamp(7, at);
            statement.setBytes(8, raw);
            statement.setBoolean(9, true);
            equal(1, statement.executeUpdate());
            statement.setInt(1, 2);
            for (int column = 2; column <= 9; column++) {
                statement.setNull(column, Types.VARCHAR);
            }
            equal(1, statement.executeUpdate());
        }
        String select = "SELECT * FROM typed WHERE id = ?";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            statement.setInt(1, 1);
            try (ResultSet row = statement.executeQuery()) {
                equal(true, row.next());
                equal(Long.MIN_VALUE, row.getLong("big"));
                equal(new BigDecimal("-1234567890.12"), row.getBigDecimal("price"));
                equal(0.1, row.getDouble("ratio"));
                equal("it's \"\u00fc\" \\", row.getString("name"));
                equal(Date.valueOf("2024-02-29"), row.getDate("day"));
                equal(at, row.getTimestamp("at"));
                equal(true, java.util.Arrays.equals(raw, row.getBytes("raw")));
                equal(true, row.getBoolean("flag"));
                equal(12, row.getMetaData().getPrecision(3));
                equal(2, row.getMetaData().getScale(3));
                equal(false, row.next());
            }
            statement.setInt(1, 2);
            try (ResultSet row = statement.executeQuery()) {
                equal(true, row.next());
                equal(null, row.getString("name"));
                equal(0L, row.getLong("big"));
                equal(true, row.wasNull());
            }
        }
    }

    private static void batch(Connection connection) throws SQLException {
        String insert = "INSERT INTO typed (id, name) VALUES (?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int i = 10; i < 110; i++) {
                statement.setInt(1, i);
                statement.setString(2, "n" + i);
                statement.addBatch();
            }
            for (int count : statement.executeBatch()) {
                equal(1, count);
            }
        }
        equal("102", value(connection, "SELECT COUNT(*) FROM typed"));
    }

    private static void transaction(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        execute(connection, "INSERT INTO typed (id) VALUES (1000)");
        equal("1", value(connection, "SELECT COUNT(*) FROM typed WHERE id = 1000"));
        connection.rollback();
        equal("0", value(connection, "SELECT COUNT(*) FROM typed WHERE id = 1000"));
        execute(connection, "INSERT INTO typed (id) VALUES (1001)");
        connection.commit();
        connection.setAutoCommit(true);
        equal("1", value(connection, "SELECT COUNT(*) FROM typed WHERE id = 1001"));
    }

    private static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        try (ResultSet tables = metadata.getTables("client_java", null, "typed", null)) {
            equal(true, tables.next());
            equal("typed", tables.getString("TABLE_NAME"));
            equal("TABLE", tables.getString("TABLE_TYPE"));
        }
        StringBuilder names = new StringBuilder();
        try (ResultSet columns = metadata.getColumns("client_java", null, "typed", "%")) {
            while (columns.next()) {
                names.append(columns.getString("COLUMN_NAME")).append(' ');
            }
        }
        equal("id big price ratio name day at raw flag ", names.toString());
        try (ResultSet catalogs = metadata.getCatalogs()) {
            boolean found = false;
            while (catalogs.next()) {
                found |= "client_java".equals(catalogs.getString(1));
            }
            equal(true, found);
        }
        try (ResultSet keys = metadata.getPrimaryKeys("client_java", null, "typed")) {
            keys.next();
        }
        try (ResultSet indexes =
                metadata.getIndexInfo("client_java", null, "typed", false, true)) {
            indexes.next();
        }
    }

    private static void cursor(Connection connection) throws SQLException {
        String select = "SELECT id FROM typed ORDER BY id";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            statement.setFetchSize(7);
            int rows = 0;
            try (ResultSet row = statement.executeQuery()) {
                while (row.next()) {
                    rows++;
                }
            }
            equal(103, rows);
        }
    }

    private static void errors(Connection connection) throws SQLException {
        fails(connection, 1146, "42S02", "SELECT * FROM nope");
        fails(connection, 1064, "42000", "SELEC 1");
        fails(connection, 1048, "23000", "INSERT INTO typed (id) VALUES (NULL)");
        equal(true, connection.isValid(1));
    }

    private static void fails(Connection connection, int number, String state, String sql) {
        try {
            execute(connection, sql);
        } catch (SQLException error) {
            equal(number, error.getErrorCode());
            equal(state, error.getSQLState());
            return;
        }
        throw new AssertionError("no error: " + sql);
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static String value(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            row.next();
            return row.getString(1);
        }
    }

    private static void equal(Object wanted, Object found) {
        if (!java.util.Objects.equals(wanted, found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }
}
