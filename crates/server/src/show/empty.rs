//! Lists that are always empty here, with their columns.

use freshet_base::Result;
use freshet_meta::{Object, Privilege, require_visible};

use super::listing::Listing;
use crate::session::Session;

const EMPTY: &[(&[&str], &[&str])] = &[
    (
        &["PROCEDURE STATUS", "FUNCTION STATUS"],
        &[
            "Db",
            "Name",
            "Type",
            "Definer",
            "@Modified",
            "@Created",
            "Security_type",
            "Comment",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    (&["OPEN TABLES"], &["Database", "Table", "#In_use", "#Name_locked"]),
    (
        &["TRIGGERS"],
        &[
            "Trigger",
            "Event",
            "Table",
            "Statement",
            "Timing",
            "@Created",
            "sql_mode",
            "Definer",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    (
        &["EVENTS"],
        &[
            "Db",
            "Name",
            "Definer",
            "Time zone",
            "Type",
            "@Execute at",
            "Interval value",
            "Interval field",
            "@Starts",
            "@Ends",
            "Status",
            "#Originator",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    (
        &["MASTER STATUS", "BINARY LOG STATUS"],
        &["File", "#Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set"],
    ),
    (&["BINARY LOGS", "MASTER LOGS"], &["Log_name", "#File_size", "Encrypted"]),
    (
        &["BINLOG EVENTS", "RELAYLOG EVENTS"],
        &["Log_name", "#Pos", "Event_type", "#Server_id", "#End_log_pos", "Info"],
    ),
    (&["SLAVE STATUS", "REPLICA STATUS"], REPLICA_STATUS),
    (&["SLAVE HOSTS"], &["#Server_Id", "Host", "#Port", "#Master_Id", "Slave_UUID"]),
    (&["REPLICAS"], &["#Server_Id", "Host", "#Port", "#Source_Id", "Replica_UUID"]),
    (&["PROFILE"], &["Status", "Duration"]),
    (&["HELP"], &["source_category_name", "name", "is_it_category"]),
    (&["PROFILES"], &["#Query_ID", "Duration", "Query"]),
    (&["VIEWS"], &["Name"]),
    (
        &["ALTER TABLE ROLLUP", "ALTER TABLE MATERIALIZED VIEW"],
        &[
            "JobId",
            "TableName",
            "CreateTime",
            "FinishTime",
            "BaseIndexName",
            "RollupIndexName",
            "RollupId",
            "TransactionId",
            "State",
            "Msg",
            "Progress",
            "Timeout",
        ],
    ),
    (
        &["BUILD INDEX"],
        &[
            "JobId",
            "TableName",
            "PartitionName",
            "AlterInvertedIndexes",
            "CreateTime",
            "FinishTime",
            "TransactionId",
            "State",
            "Msg",
            "Progress",
        ],
    ),
    (&["FUNCTIONS"], &["Function Name"]),
];

/// The columns of SHOW REPLICA STATUS; SHOW SLAVE STATUS has older names of them.
const REPLICA_STATUS: &[&str] = &[
    "Replica_IO_State",
    "Source_Host",
    "Source_User",
    "#Source_Port",
    "#Connect_Retry",
    "Source_Log_File",
    "#Read_Source_Log_Pos",
    "Relay_Log_File",
    "#Relay_Log_Pos",
    "Relay_Source_Log_File",
    "Replica_IO_Running",
    "Replica_SQL_Running",
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "#Last_Errno",
    "Last_Error",
    "#Skip_Counter",
    "#Exec_Source_Log_Pos",
    "#Relay_Log_Space",
    "Until_Condition",
    "Until_Log_File",
    "#Until_Log_Pos",
    "Source_SSL_Allowed",
    "Source_SSL_CA_File",
    "Source_SSL_CA_Path",
    "Source_SSL_Cert",
    "Source_SSL_Cipher",
    "Source_SSL_Key",
    "#Seconds_Behind_Source",
    "Source_SSL_Verify_Server_Cert",
    "#Last_IO_Errno",
    "Last_IO_Error",
    "#Last_SQL_Errno",
    "Last_SQL_Error",
    "Replicate_Ignore_Server_Ids",
    "#Source_Server_Id",
    "Source_UUID",
    "Source_Info_File",
    "#SQL_Delay",
    "#SQL_Remaining_Delay",
    "Replica_SQL_Running_State",
    "#Source_Retry_Count",
    "Source_Bind",
    "Last_IO_Error_Timestamp",
    "Last_SQL_Error_Timestamp",
    "Source_SSL_Crl",
    "Source_SSL_Crlpath",
    "Retrieved_Gtid_Set",
    "Executed_Gtid_Set",
    "#Auto_Position",
    "Replicate_Rewrite_DB",
    "Channel_Name",
    "Source_TLS_Version",
    "Source_public_key_path",
    "#Get_Source_public_key",
    "Network_Namespace",
];

/// The name of such a column in SHOW SLAVE STATUS.
fn name_before(column: &str) -> String {
    match column {
        "#Get_Source_public_key" => "#Get_master_public_key".to_owned(),
        _ => column.replace("Source", "Master").replace("Replica_", "Slave_"),
    }
}

/// What a database has none of.
///
/// # Errors
/// 1044 for one that is not visible, 1046 for triggers and events of none.
pub fn within(session: &Session, what: &str, database: Option<&str>) -> Result<Listing> {
    // Of the current one, if none is named; the others are of all.
    let database = match what {
        "TRIGGERS" | "EVENTS" => Some(session.database_of(database)?),
        _ => database,
    };
    if let Some(database) = database {
        require_visible(&session.shared.engine.catalog(), session.client.actor(), database)?;
    }
    Ok(listing(what))
}

/// Checks that the user may see a list about replication, there being none.
///
/// # Errors
/// 1227.
pub fn authorize(session: &Session, what: &str) -> Result<()> {
    let needed = match what {
        "MASTER STATUS" | "BINARY LOG STATUS" | "BINARY LOGS" | "MASTER LOGS" | "SLAVE STATUS"
        | "REPLICA STATUS" => Privilege::ReplicationClient,
        "BINLOG EVENTS" | "RELAYLOG EVENTS" | "SLAVE HOSTS" | "REPLICAS" => {
            Privilege::ReplicationSlave
        }
        _ => return Ok(()),
    };
    match session.authorize(Privilege::Super, Object::Server) {
        Ok(()) => Ok(()),
        Err(_) => session.authorize(needed, Object::Server),
    }
}

/// The list of this name.
pub fn listing(what: &str) -> Listing {
    let found = EMPTY.iter().find(|(names, _)| names.contains(&what));
    let columns = found.map_or(&[][..], |(_, columns)| columns);
    match what {
        "SLAVE STATUS" => {
            let names = columns.iter().map(|column| name_before(column)).collect::<Vec<_>>();
            Listing::new(&names.iter().map(|name| &**name).collect::<Vec<_>>())
        }
        _ => Listing::new(columns),
    }
}
