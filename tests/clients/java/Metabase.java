import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/**
 * What Metabase does: compressed connections, zones, tables and keys by the metadata of JDBC, a look
 * at each column, questions with dates cut to units, cancelled questions. Of its driver, and of
 * MySQL's.
 */
public class Metabase {
    private static final String DATABASE = "client_metabase";

    public static void main(String[] args) throws Exception {
        String url = "jdbc:mysql://127.0.0.1:" + args[0] + "/" + DATABASE;
        Properties properties = new Properties();
        properties.setProperty("user", "root");
        properties.setProperty("password", "");
        properties.setProperty("useCompression", "true");
        properties.setProperty("zeroDateTimeBehavior", "convertToNull");
        properties.setProperty("characterEncoding", "UTF8");
        properties.setProperty("useSSL", "false");
        properties.setProperty("connectionAttributes", "program_name:client_metabase");
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            about(connection);
            tables(connection);
            columns(connection);
            keys(connection);
            fingerprint(connection);
            buckets(connection);
            questions(connection);
            cancelled(connection);
        }
    }

    private static void about(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        equal(true, metadata.getDatabaseProductName().equals("MySQL"));
        equal(true, metadata.getDatabaseMajorVersion() >= 5);
        equal(true, metadata.supportsTransactions());
        String zone = "SELECT @@GLOBAL.time_zone AS global_tz, @@system_time_zone AS system_tz, "
                + "time_format(timediff(now(), convert_tz(now(), @@GLOBAL.time_zone, '+00:00')), "
                + "'%H:%i') AS 'offset'";
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(zone)) {
            equal(true, row.next());
            equal("UTC", row.getString("system_tz"));
            equal("00:00", row.getString("offset"));
        }
    }

    private static void tables(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        List<String> found = new ArrayList<>();
        String[] types = {"TABLE", "PARTITIONED TABLE", "VIEW", "FOREIGN TABLE", "MATERIALIZED VIEW",
            "EXTERNAL TABLE", "DYNAMIC_TABLE"};
        try (ResultSet tables = metadata.getTables(DATABASE, null, "%", types)) {
            while (tables.next()) {
                found.add(tables.getString("TABLE_NAME") + " " + tables.getString("TABLE_TYPE") + " "
                        + tables.getString("REMARKS"));
            }
        }
        found.replaceAll(line -> line.replace("BASE TABLE", "TABLE"));
        equal(List.of("orders TABLE what was sold", "people TABLE ", "recent VIEW VIEW"), sorted(found));
        for (String table : new String[] {"orders", "people", "recent"}) {
            execute(connection, "SELECT TRUE AS `_` FROM `" + DATABASE + "`.`" + table
                    + "` WHERE 1 <> 1 LIMIT 0");
        }
    }

    private static void columns(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        List<String> found = new ArrayList<>();
        try (ResultSet columns = metadata.getColumns(DATABASE, null, "orders", null)) {
            while (columns.next()) {
                found.add(columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME") + " "
                        + columns.getInt("NULLABLE") + " " + columns.getString("IS_AUTOINCREMENT")
                        + " " + columns.getString("COLUMN_DEF") + " " + columns.getString("REMARKS"));
            }
        }
        found.replaceAll(line -> line.replace("null", "NULL"));
        equal(List.of("id INT UNSIGNED 0 YES NULL ", "person INT 1 NO NULL ",
                "price DECIMAL 0 NO 0.00 with tax", "at DATETIME 1 NO NULL ",
                "note TEXT 1 NO NULL ", "doc JSON 1 NO NULL "), found);
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT * FROM `orders` WHERE 1 <> 1 LIMIT 0")) {
            List<String> classes = new ArrayList<>();
            for (int column = 1; column <= 4; column++) {
                classes.add(row.getMetaData().getColumnTypeName(column));
            }
            equal(List.of("INT UNSIGNED", "INT", "DECIMAL", "DATETIME"),
                    replaced(classes, "INTEGER", "INT"));
        }
    }

    private static void keys(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        try (ResultSet keys = metadata.getPrimaryKeys(DATABASE, null, "orders")) {
            equal(true, keys.next());
            equal("id", keys.getString("COLUMN_NAME"));
            equal(false, keys.next());
        }
        try (ResultSet keys = metadata.getImportedKeys(DATABASE, null, "orders")) {
            while (keys.next()) {
                equal("people", keys.getString("PKTABLE_NAME"));
            }
        }
        List<String> found = new ArrayList<>();
        try (ResultSet indexes = metadata.getIndexInfo(DATABASE, null, "orders", false, true)) {
            while (indexes.next()) {
                found.add(indexes.getString("INDEX_NAME") + " " + indexes.getString("COLUMN_NAME")
                        + " " + indexes.getBoolean("NON_UNIQUE"));
            }
        }
        equal(List.of("PRIMARY id false", "by_person person true"), sorted(found));
        try (ResultSet privileges = metadata.getTablePrivileges(DATABASE, null, "orders")) {
            privileges.next();
        }
        execute(connection, "SHOW GRANTS FOR CURRENT_USER()");
        execute(connection, "SELECT table_name, column_name, column_comment, extra "
                + "FROM information_schema.columns WHERE table_schema = DATABASE()");
    }

    /** The first rows of every column; of texts the first characters. */
    private static void fingerprint(Connection connection) throws SQLException {
        equal(List.of("1 first"), rows(connection, "-- Metabase\nSELECT `" + DATABASE
                + "`.`orders`.`id` AS `id`, SUBSTRING(`" + DATABASE
                + "`.`orders`.`note`, 1, 1234) AS `substring1` FROM `" + DATABASE
                + "`.`orders` WHERE `note` IS NOT NULL LIMIT 10000"));
        equal(List.of("3 3"), rows(connection, "SELECT count(distinct `source`.`id`) AS `count`, "
                + "COUNT(*) AS `n` FROM (SELECT `orders`.`id` AS `id` FROM `orders`) AS `source`"));
        equal(List.of("1 2"), rows(connection, "SELECT `orders`.`id`, json_extract(convert(`orders`."
                + "`doc`, char), '$.a') AS `a` FROM `orders` WHERE `doc` IS NOT NULL"));
    }

    /** Times cut to units, as questions group by them, of Thursday, 29 February 2024, 13:14:15. */
    private static void buckets(Connection connection) throws SQLException {
        String[][] units = {
            {"str_to_date(date_format(at, '%Y-%m-%d %H:%i'), '%Y-%m-%d %H:%i')", "2024-02-29 13:14:00"},
            {"minute(at)", "14"},
            {"str_to_date(date_format(at, '%Y-%m-%d %H'), '%Y-%m-%d %H')", "2024-02-29 13:00:00"},
            {"hour(at)", "13"},
            {"date(at)", "2024-02-29"},
            {"dayofweek(at)", "5"},
            {"dayofmonth(at)", "29"},
            {"dayofyear(at)", "60"},
            {"str_to_date(concat(yearweek(at), ' Sunday'), '%X%V %W')", "2024-02-25"},
            {"week(at, 6)", "9"},
            {"str_to_date(concat(date_format(at, '%Y-%m'), '-01'), '%Y-%m-%d')", "2024-02-01"},
            {"month(at)", "2"},
            {"str_to_date(concat(year(at), '-', ((quarter(at) * 3) - 2), '-01'), '%Y-%m-%d')", "2024-01-01"},
            {"quarter(at)", "1"},
            {"makedate(year(at), 1)", "2024-01-01"},
            {"convert_tz(at, 'UTC', '+02:00')", "2024-02-29 15:14:15"},
            {"date_add(at, INTERVAL -30 day)", "2024-01-30 13:14:15"},
            {"timestampdiff(month, '2023-01-31', at)", "12"},
            {"unix_timestamp(at)", "1709212455"},
            {"from_unixtime(1709212455)", "2024-02-29 13:14:15"},
            {"regexp_substr(note, '[a-z]+')", "first"},
            {"concat(note, '-', person)", "first-1"},
        };
        for (String[] unit : units) {
            String bucket = unit[0].replace(" at", " `orders`.`at`");
            List<String> found = rows(connection, "SELECT COUNT(*) AS `count`, " + bucket
                    + " AS `at` FROM `orders` WHERE `orders`.`id` = 1 GROUP BY " + bucket + " ORDER BY "
                    + bucket + " ASC");
            found.replaceAll(line -> line.replaceFirst("\\.0+$", ""));
            equal(unit[0] + ": " + List.of("1 " + unit[1]), unit[0] + ": " + found);
        }
    }

    /** Parameters, joins, and the settings of a connection that reads only. */
    private static void questions(Connection connection) throws SQLException {
        execute(connection, "SET @@session.time_zone = '+02:00'");
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_UNCOMMITTED);
        connection.setReadOnly(true);
        connection.setAutoCommit(false);
        String question = "SELECT `people`.`name` AS `name`, SUM(`orders`.`price`) AS `sum` FROM `orders` "
                + "LEFT JOIN `people` AS `people` ON `orders`.`person` = `people`.`id` "
                + "WHERE (`orders`.`at` >= ? AND `orders`.`at` < ?) OR (lower(`people`.`name`) LIKE ?) "
                + "GROUP BY `people`.`name` ORDER BY `sum` DESC, `people`.`name` ASC LIMIT 2000";
        try (PreparedStatement statement = connection.prepareStatement(
                question, ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
            statement.setFetchDirection(ResultSet.FETCH_FORWARD);
            statement.setMaxRows(2000);
            statement.setObject(1, java.time.LocalDateTime.of(2024, 2, 29, 0, 0));
            statement.setObject(2, java.time.LocalDateTime.of(2024, 3, 1, 0, 0));
            statement.setObject(3, "%gr%");
            List<String> found = new ArrayList<>();
            try (ResultSet row = statement.executeQuery()) {
                while (row.next()) {
                    found.add(row.getString("name") + " " + row.getBigDecimal("sum"));
                }
            }
            equal(List.of("Grace 20.00", "Ada 1.50"), found);
        }
        connection.rollback();
        connection.setAutoCommit(true);
        connection.setReadOnly(false);
        execute(connection, "SET @@session.time_zone = '+00:00'");
    }

    /** A question that is given up ends soon, and its connection answers the next one. */
    private static void cancelled(Connection connection) throws SQLException {
        long began = System.nanoTime();
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("SELECT SLEEP(30)").close();
        } catch (SQLException error) {
            equal(true, List.of(1317, 3024, 0).contains(error.getErrorCode()));
        }
        equal(true, System.nanoTime() - began < 20_000_000_000L);
        equal(List.of("1 2"), rows(connection, "SELECT 1, 2"));
    }

    private static List<String> rows(Connection connection, String sql) throws SQLException {
        List<String> rows = new ArrayList<>();
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            while (row.next()) {
                rows.add(row.getString(1) + " " + row.getString(2));
            }
        }
        return rows;
    }

    private static List<String> sorted(List<String> lines) {
        lines.sort(null);
        return lines;
    }

    private static List<String> replaced(List<String> lines, String one, String other) {
        lines.replaceAll(line -> line.replace(one, other));
        return lines;
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static void equal(Object wanted, Object found) {
        if (!java.util.Objects.equals(wanted, found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }
}
