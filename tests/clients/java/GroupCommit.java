import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.util.Map;

/**
 * The example program of the documentation of group commit, with another port and database, the
 * two session variables of its URL joined into one parameter, and the name of the driver.
 */
public class GroupCommit {
    private static final Map<String, String> JDBC_DRIVERS = Map.of(
            "mysql", "com.mysql.jdbc.Driver", "mariadb", "org.mariadb.jdbc.Driver");
    private static final String URL_PATTERN = "jdbc:%s://%s:%d/%s?useServerPrepStmts=true&useLocalSessionState=true&rewriteBatchedStatements=true&cachePrepStmts=true&prepStmtCacheSqlLimit=99999&prepStmtCacheSize=500&sessionVariables=group_commit=async_mode,enable_nereids_planner=false";
    private static final String HOST = "127.0.0.1";
    private static int PORT = 9087;
    private static final String DB = "client_java";
    private static final String TBL = "dt";
    private static final String USER = "root";
    private static final String PASSWD = "";
    private static final int INSERT_BATCH_SIZE = 10;

    public static void main(String[] args) throws Exception {
        PORT = Integer.parseInt(args[0]);
        groupCommitInsertBatch(args[1]);
    }

    private static void groupCommitInsertBatch(String scheme) throws Exception {
        Class.forName(JDBC_DRIVERS.get(scheme));
        // add rewriteBatchedStatements=true and cachePrepStmts=true in JDBC url
        // set session variables by sessionVariables=group_commit=async_mode in JDBC url
        try (Connection conn = DriverManager.getConnection(
                String.format(URL_PATTERN, scheme, HOST, PORT, DB), USER, PASSWD)) {

            String query = "insert into " + TBL + " values(?, ?, ?)";
            try (PreparedStatement stmt = conn.prepareStatement(query)) {
                for (int j = 0; j < 5; j++) {
                    // 10 rows per insert
                    for (int i = 0; i < INSERT_BATCH_SIZE; i++) {
                        stmt.setInt(1, i);
                        stmt.setString(2, "name" + i);
                        stmt.setInt(3, i + 10);
                        stmt.addBatch();
                    }
                    int[] result = stmt.executeBatch();
                }
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }
}
