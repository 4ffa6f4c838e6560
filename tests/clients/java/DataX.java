import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/**
 * What the writer and the reader of DataX for MySQL do: types by an empty SELECT, batches in
 * transactions, and rows one at a time behind a batch that failed, of which the wrong ones are
 * counted; splits by the range of a key, and results that are read as they come.
 */
public class DataX {
    private static final String URL = "jdbc:mysql://127.0.0.1:%s/client_datax"
            + "?yearIsDateType=false&zeroDateTimeBehavior=%s&tinyInt1isBit=false"
            + "&rewriteBatchedStatements=true&useSSL=false";
    private static final String COLUMNS = "id,name,price,at,flag";
    private static final int ROWS_A_BATCH = 256;

    private static String url;

    public static void main(String[] args) throws Exception {
        // Connector/J 5.1 and the newer ones name this value in other ways.
        String zero = args[1].equals("5.1") ? "convertToNull" : "CONVERT_TO_NULL";
        url = String.format(URL, args[0], zero);
        try (Connection connection = connect("set autocommit=1")) {
            execute(connection, "DROP TABLE IF EXISTS grouped");
            execute(connection, "DROP TABLE IF EXISTS keyed");
            execute(connection, "CREATE TABLE grouped (id BIGINT, name VARCHAR(20), "
                    + "price DECIMAL(10,2), at DATETIME, flag TINYINT(1)) DUPLICATE KEY(id) "
                    + "DISTRIBUTED BY HASH(id) BUCKETS 2 PROPERTIES ('replication_num' = '1')");
            execute(connection, "CREATE TABLE keyed (id BIGINT PRIMARY KEY, name VARCHAR(20), "
                    + "price DECIMAL(10,2), at DATETIME, flag TINYINT(1))");
        }
        for (String session : new String[] {"set group_commit=async_mode", "set group_commit=off_mode"}) {
            equal(0, write("insert", "grouped", session, rows(0, 1000, "n"), true));
            equal(List.of("1000 499500"), read("SELECT COUNT(*), SUM(id) FROM grouped"));
        }
        equal(0, write("insert", "keyed", "set @a = 1", rows(0, 1000, "n"), true));
        equal(0, write("replace", "keyed", "set @a = 1", rows(500, 1000, "r"), false));
        equal(0, write("update", "keyed", "set @a = 1", rows(1000, 1000, "u"), false));
        equal(List.of("500 n", "500 r", "1000 u"), read("SELECT COUNT(*), LEFT(name, 1) FROM keyed "
                + "GROUP BY LEFT(name, 1) ORDER BY MIN(id)"));
        dirty();
        split();
    }

    private static Connection connect(String session) throws SQLException {
        Connection connection = DriverManager.getConnection(url, "root", "");
        execute(connection, session);
        return connection;
    }

    private static List<String[]> rows(int first, int count, String name) {
        List<String[]> rows = new ArrayList<>();
        for (int id = first; id < first + count; id++) {
            rows.add(new String[] {"" + id, name + id, id + ".25", "2024-02-29 12:00:00", "" + id % 2});
        }
        return rows;
    }

    /** Writes rows in a mode; returns how many were refused. */
    private static int write(String mode, String table, String session, List<String[]> rows,
            boolean truncated) throws SQLException {
        try (Connection connection = connect(session)) {
            if (truncated) {
                execute(connection, "truncate table " + table);
            }
            types(connection, table);
            int refused = 0;
            for (int first = 0; first < rows.size(); first += ROWS_A_BATCH) {
                List<String[]> batch = rows.subList(first, Math.min(rows.size(), first + ROWS_A_BATCH));
                refused += batch(connection, statement(mode, table), batch);
            }
            return refused;
        }
    }

    private static String statement(String mode, String table) {
        String values = table + " (" + COLUMNS + ") VALUES(?,?,?,?,?)";
        switch (mode) {
            case "insert":
                return "INSERT INTO " + values;
            case "replace":
                return "REPLACE INTO " + values;
            default:
                return "INSERT INTO " + values + " ON DUPLICATE KEY UPDATE id=VALUES(id),"
                        + "name=VALUES(name),price=VALUES(price),at=VALUES(at),flag=VALUES(flag)";
        }
    }

    private static void types(Connection connection, String table) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet none = statement.executeQuery(
                        "select " + COLUMNS + " from " + table + " where 1=2")) {
            StringBuilder types = new StringBuilder();
            for (int column = 1; column <= 5; column++) {
                types.append(none.getMetaData().getColumnTypeName(column)).append(' ');
            }
            equal("BIGINT VARCHAR DECIMAL DATETIME TINYINT ", types.toString());
            equal(false, none.next());
        }
    }

    private static int batch(Connection connection, String sql, List<String[]> rows)
            throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            connection.setAutoCommit(false);
            for (String[] row : rows) {
                fill(statement, row);
                statement.addBatch();
            }
            statement.executeBatch();
            connection.commit();
            return 0;
        } catch (SQLException error) {
            connection.rollback();
        }
        int refused = 0;
        connection.setAutoCommit(true);
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (String[] row : rows) {
                try {
                    fill(statement, row);
                    statement.execute();
                } catch (SQLException error) {
                    refused++;
                } finally {
                    statement.clearParameters();
                }
            }
        }
        return refused;
    }

    private static void fill(PreparedStatement statement, String[] row) throws SQLException {
        for (int column = 0; column < row.length; column++) {
            if (column == 3 && row[column] != null) {
                statement.setTimestamp(column + 1, java.sql.Timestamp.valueOf(row[column]));
            } else {
                statement.setString(column + 1, row[column]);
            }
        }
    }

    /** Keys that are there, names that are too long, numbers that are none: the others are written. */
    private static void dirty() throws SQLException {
        List<String[]> rows = rows(5000, 600, "d");
        rows.get(10)[0] = "1";
        rows.get(300)[1] = "a name of more than twenty characters";
        rows.get(301)[2] = "cheap";
        rows.get(302)[1] = null;
        equal(3, write("insert", "keyed", "set @a = 1", rows, false));
        equal(List.of("597 1"), read(
                "SELECT COUNT(*), SUM(name IS NULL) FROM keyed WHERE id >= 5000"));
        equal(List.of("1 n1"), read("SELECT id, name FROM keyed WHERE id = 1"));
    }

    /** The reader: ranges of the key, each read as it comes. */
    private static void split() throws SQLException {
        equal(List.of("0 5599"), read("SELECT MIN(id),MAX(id) FROM keyed WHERE (1=1 AND id IS NOT NULL)"));
        int found = 0;
        for (String where : new String[] {"(1=1) and  (0 <= id AND id < 2800) ",
            "(1=1) and  (2800 <= id AND id <= 5599) ", "(1=1) and  id IS NULL"}) {
            try (Connection connection = connect("set net_write_timeout=600")) {
                connection.setAutoCommit(false);
                try (Statement statement = connection.createStatement(
                        ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                    statement.setFetchSize(Integer.MIN_VALUE);
                    statement.setQueryTimeout(60);
                    ResultSet row = statement.executeQuery(
                            "select " + COLUMNS + " from keyed where " + where);
                    while (row.next()) {
                        found += row.getObject("id") == null ? 0 : 1;
                    }
                }
                connection.commit();
            }
        }
        equal(2597, found);
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static List<String> read(String sql) throws SQLException {
        List<String> rows = new ArrayList<>();
        try (Connection connection = connect("set @a = 1");
                Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            while (row.next()) {
                rows.add(row.getString(1) + " " + row.getString(2));
            }
        }
        return rows;
    }

    private static void equal(Object wanted, Object found) {
        if (!java.util.Objects.equals(wanted, found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }
}
