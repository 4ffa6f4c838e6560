//! The error that clients see: what happened, where, what to do next, and whether to retry.
//!
//! Internal crates have small enums of their own where callers branch; whatever reaches a client is
//! an [`Error`], whose [`ErrorCode`] alone decides MySQL errno, SQLSTATE and HTTP status.

use std::fmt;
use std::time::Duration;

#[macro_use]
mod macros;

/// `Result` with the [`Error`] that clients see.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $errno:literal $state:literal $http:literal;)*) => {
        /// What happened, as one table: MySQL errno, SQLSTATE, HTTP status.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub const fn errno(self) -> u16 {
                match self { $(Self::$name => $errno,)* }
            }

            pub const fn sqlstate(self) -> &'static str {
                match self { $(Self::$name => $state,)* }
            }

            /// The HTTP status of a request that failed as a whole with this error.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$name => $http,)* }
            }
        }
    };
}

codes! {
    /// A file of the server that a statement names.
    FileNotFound = 29 "HY000" 404;
    DatabaseExists = 1007 "HY000" 409;
    DatabaseDropMissing = 1008 "HY000" 404;
    /// No connection slot is free.
    TooManyConnections = 1040 "08004" 503;
    /// Memory, log room or another budget is full; retry later.
    OutOfRoom = 1041 "HY000" 503;
    HandshakeFailed = 1043 "08S01" 400;
    /// The user may not use this database.
    AccessDeniedDatabase = 1044 "42000" 403;
    /// Wrong user or password.
    AccessDenied = 1045 "28000" 401;
    NoDatabase = 1046 "3D000" 400;
    UnknownCommand = 1047 "08S01" 400;
    NotNull = 1048 "23000" 400;
    UnknownDatabase = 1049 "42000" 404;
    TableExists = 1050 "42S01" 409;
    TableDropMissing = 1051 "42S02" 404;
    AmbiguousColumn = 1052 "23000" 400;
    ShuttingDown = 1053 "08S01" 503;
    UnknownColumn = 1054 "42S22" 400;
    /// A selected column is neither grouped nor aggregated.
    NotGrouped = 1055 "42000" 400;
    /// GROUP BY names an aggregate.
    WrongGroupField = 1056 "42000" 400;
    /// A name with more characters than names may have.
    TooLongIdentifier = 1059 "42000" 400;
    DuplicateColumn = 1060 "42S21" 400;
    /// Two keys of a table with one name.
    DuplicateKeyName = 1061 "42000" 409;
    DuplicateKey = 1062 "23000" 409;
    Syntax = 1064 "42000" 400;
    EmptyQuery = 1065 "42000" 400;
    /// The same table name or alias twice in one query.
    NotUniqueTable = 1066 "42000" 400;
    /// A default that the column cannot hold.
    InvalidDefault = 1067 "42000" 400;
    MultiplePrimaryKeys = 1068 "42000" 400;
    /// A type or attributes that a column cannot have.
    WrongColumn = 1063 "42000" 400;
    KeyTooLong = 1071 "42000" 400;
    KeyColumnMissing = 1072 "42000" 400;
    /// AUTO_INCREMENT of a column that is not a key, or of two.
    WrongAutoKey = 1075 "42000" 400;
    /// The declared length is above the type's maximum.
    TooLongColumn = 1074 "42000" 400;
    /// A statement that changes the table that it reads in a subquery.
    ChangesWhatItReads = 1093 "HY000" 400;
    /// DROP of a column or key that the table lacks.
    CannotDropColumn = 1091 "42000" 400;
    /// KILL of a connection that does not exist.
    UnknownThread = 1094 "HY000" 404;
    KillDenied = 1095 "HY000" 403;
    /// A key of the first characters of a column that has none, or fewer.
    WrongPrefixKey = 1089 "HY000" 400;
    CannotRemoveAllColumns = 1090 "42000" 400;
    TooManyLabels = 1097 "HY000" 400;
    WrongDatabaseName = 1102 "42000" 400;
    WrongTableName = 1103 "42000" 400;
    /// An error without a MySQL number of its own.
    Unknown = 1105 "HY000" 500;
    /// No such table in a multi-table statement.
    UnknownTable = 1109 "42S02" 404;
    /// FIELDS or LINES with what cannot separate or enclose fields.
    WrongFieldTerminators = 1083 "42000" 400;
    /// A file that is to be written exists.
    FileExists = 1086 "HY000" 409;
    /// A column given twice in one list.
    ColumnTwice = 1110 "42000" 400;
    /// An aggregate where none is allowed.
    WrongGroupFunction = 1111 "HY000" 400;
    UnknownCharset = 1115 "42000" 400;
    /// More tables than a statement may read.
    TooManyTables = 1116 "HY000" 400;
    /// More columns than a select may have.
    TooManyColumns = 1117 "HY000" 400;
    /// A row whose number of values is not the number of columns.
    ColumnCount = 1136 "21S01" 400;
    /// NULL where a change of columns allows none.
    NullValue = 1138 "22004" 400;
    /// A column beside an aggregate, in a query without GROUP BY.
    MixOfGroups = 1140 "42000" 400;
    NoSuchGrant = 1141 "42000" 404;
    /// The user may not do this to this table.
    TableAccessDenied = 1142 "42000" 403;
    /// A column without a privilege.
    ColumnAccessDenied = 1143 "42000" 403;
    /// A privilege on what it is not for.
    IllegalGrant = 1144 "42000" 400;
    NoSuchTable = 1146 "42S02" 404;
    /// A packet above `max_allowed_packet`.
    PacketTooLarge = 1153 "08S01" 413;
    /// A packet out of sequence, or malformed.
    PacketMalformed = 1156 "08S01" 400;
    /// The rest of a packet did not arrive in time.
    ReadTimeout = 1159 "08S01" 408;
    WrongColumnName = 1166 "42000" 400;
    /// A key of a text without length.
    BlobKey = 1170 "42000" 400;
    /// A SELECT INTO with more than one row.
    TooManyRows = 1172 "42000" 400;
    /// A change that no key narrows, under `sql_safe_updates`.
    UpdateWithoutKey = 1175 "HY000" 400;
    /// A key that the table lacks.
    NoSuchKey = 1176 "42000" 400;
    UnknownVariable = 1193 "HY000" 400;
    /// The statement waited too long for a lock or for its place in a queue.
    LockWaitTimeout = 1205 "HY000" 503;
    /// The account has as many connections as it may.
    UserConnections = 1203 "42000" 503;
    /// Transactions wait for each other, or what a statement read has changed too often.
    Deadlock = 1213 "40001" 503;
    /// A transaction holds as many locks as it may.
    LockTableFull = 1206 "HY000" 503;
    /// An argument of the wrong kind or number.
    WrongArguments = 1210 "HY000" 400;
    /// Clauses that do not go together.
    WrongUsage = 1221 "HY000" 400;
    /// The two sides of a UNION differ in columns.
    SetColumns = 1222 "21000" 400;
    /// The account has used up what it may do in an hour, or has as many connections as it may.
    UserLimit = 1226 "42000" 429;
    /// The user lacks a server-wide privilege.
    PrivilegeMissing = 1227 "42000" 403;
    /// The variable exists in another scope only.
    VariableScope = 1228 "HY000" 400;
    /// A global variable set as if it were of the session.
    VariableGlobalOnly = 1229 "HY000" 400;
    /// A value that the variable does not take.
    VariableValue = 1231 "42000" 400;
    /// A value of the wrong type for the variable.
    VariableType = 1232 "42000" 400;
    /// A feature of MySQL that Freshet does not have; the message names it.
    NotSupported = 1235 "42000" 501;
    VariableReadOnly = 1238 "HY000" 400;
    WrongForeignKey = 1239 "42000" 400;
    /// A change of what is no table.
    NonUpdatableTable = 1288 "HY000" 400;
    /// An operand with the wrong number of columns.
    OperandColumns = 1241 "21000" 400;
    /// A scalar subquery with more than one row.
    SubqueryRows = 1242 "21000" 400;
    UnknownStatement = 1243 "HY000" 400;
    /// A derived table without a name.
    DerivedAlias = 1248 "42000" 400;
    /// A table named where only the columns of a UNION are.
    TableNotHere = 1250 "42000" 400;
    /// A collation of another character set.
    CollationCharset = 1253 "42000" 400;
    /// A result of GROUP_CONCAT above `group_concat_max_len`.
    GroupConcatCut = 1260 "HY000" 400;
    /// A row of a file with fewer fields than columns.
    TooFewFields = 1261 "01000" 400;
    /// A row of a file with more fields than columns.
    TooManyFields = 1262 "01000" 400;
    /// NULL in a file, for a column that does not take it.
    NullToNotNull = 1263 "22004" 400;
    /// A number outside the range of its column.
    OutOfRange = 1264 "22003" 400;
    /// Data cut to fit.
    Truncated = 1265 "01000" 400;
    /// Two texts whose collations differ.
    CollationMix = 1267 "HY000" 400;
    /// More than two of them.
    CollationMixOfMany = 1271 "HY000" 400;
    UnknownCollation = 1273 "HY000" 400;
    /// A text twice in the list of an ENUM or SET.
    DuplicateLabel = 1291 "HY000" 400;
    /// Text that is not a valid date, time or number.
    WrongValue = 1292 "22007" 400;
    InvalidOnUpdate = 1294 "HY000" 400;
    /// What the settings of the server exclude.
    OptionPrevents = 1290 "HY000" 403;
    CannotPrepare = 1295 "HY000" 400;
    /// Bytes that are not valid UTF-8 where text is expected.
    NotUtf8 = 1300 "HY000" 400;
    /// A result above `max_allowed_packet`.
    PacketOverflowed = 1301 "HY000" 400;
    UnknownFunction = 1305 "42000" 400;
    /// KILL QUERY, or the client disconnected.
    Interrupted = 1317 "70100" 499;
    /// A view where a table is required.
    WrongObject = 1347 "HY000" 400;
    /// A column of a view that is an expression gets a value.
    NonUpdatableColumn = 1348 "HY000" 400;
    /// A view whose query has variables or parameters.
    ViewHasVariable = 1351 "HY000" 400;
    /// A view that would read a temporary table.
    ViewOfTemporary = 1352 "HY000" 400;
    /// A list of columns that is longer or shorter than what it names.
    ViewColumns = 1353 "HY000" 400;
    /// A view whose query no longer fits its tables, or the rights of its definer.
    ViewInvalid = 1356 "HY000" 400;
    /// The column has no default and was given no value.
    NoDefault = 1364 "HY000" 400;
    /// Division by zero while storing, in strict mode.
    DivisionByZero = 1365 "22012" 400;
    /// A value of the wrong type for its column.
    WrongFieldValue = 1366 "HY000" 400;
    /// A member of a SET with a comma.
    IllegalSet = 1367 "22007" 400;
    /// CHECK OPTION of a view that no row is written through.
    CheckOptionFixed = 1368 "HY000" 400;
    /// A row that its view would not show.
    CheckOptionFailed = 1369 "HY000" 400;
    NoSuchTrigger = 1360 "HY000" 404;
    /// Columns of several tables that a view joins.
    JoinViewTables = 1393 "HY000" 400;
    /// INSERT through a view of joined tables that does not name columns.
    JoinViewColumns = 1394 "HY000" 400;
    /// DELETE through a view of joined tables.
    JoinViewDelete = 1395 "HY000" 400;
    /// CREATE, ALTER or DROP USER failed.
    CannotUser = 1396 "HY000" 400;
    TooManyPlaceholders = 1390 "HY000" 400;
    /// A key of no characters of a column.
    EmptyKeyPart = 1391 "HY000" 400;
    /// A change of columns has taken the place of the table meanwhile.
    TableChanged = 1412 "HY000" 503;
    GrantToNobody = 1410 "42000" 404;
    TooLong = 1406 "22001" 400;
    /// An argument that the function cannot read.
    WrongArgument = 1411 "HY000" 400;
    /// A column that a view leaves out has no default.
    NoDefaultBelow = 1423 "HY000" 400;
    /// More digits than the type has.
    TooBigPrecision = 1426 "42000" 400;
    /// A statement nested so deeply that it would overflow the stack.
    TooDeep = 1436 "HY000" 400;
    TooBigDisplayWidth = 1439 "42000" 400;
    /// The result of a date function is outside the years 0 to 9999.
    DateOverflow = 1441 "22008" 400;
    /// RENAME of a view into another database.
    SchemaChangeForbidden = 1450 "HY000" 400;
    /// As many prepared statements as a connection may have.
    TooManyStatements = 1461 "42000" 503;
    ViewRecursion = 1462 "HY000" 400;
    /// An AUTO_INCREMENT column holds no further id.
    NoMoreIds = 1467 "HY000" 409;
    /// A view that takes no new rows.
    NonInsertableTable = 1471 "HY000" 400;
    /// Partitions whose values are of the other method.
    PartitionValues = 1480 "HY000" 400;
    /// MAXVALUE where another partition follows.
    MaxValueNotLast = 1481 "HY000" 400;
    PartitionCount = 1484 "HY000" 400;
    PartitionsMissing = 1492 "HY000" 400;
    /// Ranges of partitions that do not rise, or overlap.
    RangeNotIncreasing = 1493 "HY000" 400;
    /// Partitions with several numbers of subpartitions.
    SubpartitionCount = 1494 "HY000" 400;
    /// A value in two partitions.
    ListTwice = 1495 "HY000" 400;
    TooManyPartitions = 1499 "HY000" 400;
    /// A unique key without a column of PARTITION BY.
    PartitionKey = 1503 "HY000" 400;
    NoPartitions = 1504 "HY000" 400;
    NotPartitioned = 1505 "HY000" 400;
    /// DROP PARTITION of what is none.
    NoSuchPartition = 1507 "HY000" 404;
    LastPartition = 1508 "HY000" 400;
    /// COALESCE PARTITION of partitions that have values.
    OnlyHash = 1509 "HY000" 400;
    /// ADD PARTITION PARTITIONS 0.
    NoneAdded = 1514 "HY000" 400;
    /// COALESCE PARTITION 0.
    NoneCoalesced = 1515 "HY000" 400;
    PartitionExists = 1517 "HY000" 409;
    /// REORGANIZE PARTITION of partitions that do not follow each other.
    PartitionsApart = 1519 "HY000" 400;
    /// REORGANIZE PARTITION into another range.
    PartitionsElsewhere = 1520 "HY000" 400;
    /// A literal that is compared with a date, and is none.
    NoDate = 1525 "HY000" 400;
    NoPartition = 1526 "HY000" 400;
    NoSuchEvent = 1539 "HY000" 404;
    /// NULL as a bound of a range.
    NullInRange = 1566 "HY000" 400;
    /// A function called with the wrong number of arguments.
    ParameterCount = 1582 "42000" 400;
    /// SET TRANSACTION while a transaction is open.
    TransactionOpen = 1568 "25001" 400;
    /// SET SESSION of a variable that has only a global value.
    VariableSessionReadOnly = 1621 "HY000" 400;
    /// A value of a partition that is none of its column.
    PartitionValueType = 1654 "HY000" 400;
    /// A column whose type cannot divide a table.
    PartitionFieldType = 1659 "HY000" 400;
    KeyCommentTooLong = 1688 "HY000" 400;
    /// A number too large for its expression's type.
    ExpressionRange = 1690 "22003" 400;
    /// EXCHANGE PARTITION with a table of which something else is said.
    ExchangeOption = 1731 "HY000" 400;
    /// EXCHANGE PARTITION with a table that has partitions itself.
    ExchangeDivided = 1732 "HY000" 400;
    ExchangeTemporary = 1733 "HY000" 400;
    /// PARTITION (..) that names no partition.
    UnknownPartition = 1735 "HY000" 404;
    /// EXCHANGE PARTITION with a table of other columns or keys.
    ExchangeDifferent = 1736 "HY000" 400;
    /// EXCHANGE PARTITION with a table that has a row which the partition does not take.
    ExchangeRow = 1737 "HY000" 400;
    /// PARTITION (..) of a table without partitions.
    PartitionClause = 1747 "HY000" 400;
    /// A row that is of none of the partitions that PARTITION (..) names.
    NotInPartitions = 1748 "HY000" 400;
    UnknownExplainFormat = 1791 "HY000" 400;
    /// A write in a read-only transaction.
    ReadOnlyTransaction = 1792 "25006" 400;
    /// A bug of the server.
    Internal = 1815 "HY000" 500;
    /// YEAR of another width than four.
    InvalidYear = 1818 "HY000" 400;
    /// A password that `validate_password.policy` does not allow.
    PasswordPolicy = 1819 "HY000" 400;
    /// A password hash that is not in its plugin's format.
    PasswordFormat = 1827 "HY000" 400;
    DuplicateForeignKey = 1826 "HY000" 409;
    ColumnOfForeignKey = 1828 "HY000" 400;
    /// The password has expired, and the session must change it first.
    MustChangePassword = 1820 "HY000" 403;
    /// The password has expired, and the client cannot change it.
    PasswordExpired = 1862 "HY000" 403;
    ConnectionKilled = 1927 "70100" 499;
    /// A logarithm of zero or of a negative number.
    NoLogarithm = 3020 "2201E" 400;
    /// The query ran longer than allowed.
    QueryTimeout = 3024 "HY000" 504;
    /// An aggregate in the ORDER BY of a UNION.
    AggregateOrder = 3028 "HY000" 400;
    /// ORDER BY of a SELECT DISTINCT by what it does not select.
    DistinctOrder = 3065 "HY000" 400;
    /// A lock name that is empty or too long.
    LockName = 3057 "42000" 400;
    /// ACCOUNT LOCK.
    AccountLocked = 3118 "HY000" 403;
    InvalidJson = 3140 "22032" 400;
    InvalidJsonPath = 3143 "42000" 400;
    /// A key of a JSON column.
    JsonKey = 3152 "42000" 400;
    /// A connection that is not encrypted where it must be.
    SecureTransportRequired = 3159 "HY000" 403;
    /// `require_secure_transport` of a server without TLS.
    NoSecureTransport = 3160 "HY000" 400;
    /// A value other than DEFAULT for a generated column.
    GeneratedValue = 3105 "HY000" 400;
    GeneratedUnsupported = 3106 "HY000" 400;
    /// A generated column that names itself, or a generated one behind it.
    GeneratedNotPrior = 3107 "HY000" 400;
    /// A column that a generated one names is dropped or renamed.
    GeneratedDependency = 3108 "HY000" 400;
    GeneratedOfAutoIncrement = 3109 "HY000" 400;
    /// More elements (values, expressions, ...) than a statement may have.
    TooLarge = 3170 "HY000" 400;
    /// An account or role that does not exist.
    UnknownAuthorizationId = 3523 "HY000" 400;
    /// A role that would be granted to itself.
    RoleLoop = 3527 "HY000" 400;
    /// A role that the account does not have.
    RoleNotGranted = 3530 "HY000" 403;
    /// FOR UPDATE OF of a table that the query does not read.
    UnresolvedLock = 3568 "HY000" 400;
    /// FOR UPDATE OF that names a table twice.
    DuplicateLock = 3569 "HY000" 400;
    /// A lock that another transaction holds, of a statement that does not wait.
    LockNoWait = 3572 "HY000" 409;
    /// OVER names a window that WINDOW does not define.
    UnknownWindow = 3579 "HY000" 400;
    /// Windows that are defined by each other.
    WindowLoop = 3580 "HY000" 400;
    /// PARTITION BY of a window that is defined by another one.
    WindowPartition = 3581 "HY000" 400;
    /// A window that is defined by another one, which has a frame.
    WindowFrameBelow = 3582 "HY000" 400;
    /// ORDER BY of two windows, one of which is defined by the other.
    WindowOrderTwice = 3583 "HY000" 400;
    /// Two windows of one name.
    WindowTwice = 3591 "HY000" 400;
    /// A window function in WHERE, HAVING, GROUP BY, ON or an aggregate.
    WindowNotHere = 3593 "HY000" 400;
    /// The alias of a window function in HAVING.
    WindowAliasNotHere = 3594 "HY000" 400;
    /// GROUPING of what is no key of its GROUP BY.
    NotGroupingKey = 3602 "HY000" 400;
    NotPersisted = 3615 "HY000" 404;
    /// A dynamic privilege on something else than the server.
    PrivilegeLevel = 3619 "HY000" 400;
    /// A recursive CTE that does not end.
    RecursionDepth = 3636 "HY000" 400;
    PasswordReused = 3638 "HY000" 400;
    /// A value that a column of JSON_TABLE lacks or cannot hold, with ERROR ON EMPTY or ON ERROR.
    JsonTableValue = 3665 "22035" 400;
    /// The argument of STATEMENT_DIGEST is no statement.
    DigestArgument = 3676 "HY000" 400;
    /// A regular expression of no characters.
    RegexpArgument = 3685 "HY000" 400;
    /// A position that is not in the text which is searched.
    RegexpOutOfBounds = 3686 "HY000" 400;
    RegexpSyntax = 3688 "HY000" 400;
    RegexpEscape = 3689 "HY000" 400;
    /// What a regular expression may have in MySQL and not here.
    RegexpUnsupported = 3690 "HY000" 400;
    RegexpParenthesis = 3691 "HY000" 400;
    RegexpInterval = 3692 "HY000" 400;
    RegexpMaxBelowMin = 3693 "HY000" 400;
    RegexpBracket = 3696 "HY000" 400;
    RegexpRange = 3697 "HY000" 400;
    RegexpTooBig = 3700 "HY000" 400;
    /// A generated column whose value depends on more than the row.
    GeneratedFunction = 3763 "HY000" 400;
    GeneratedVariable = 3765 "HY000" 400;
    /// A default whose value depends on more than its expression, the time and chance.
    DefaultFunction = 3770 "HY000" 400;
    /// A CHECK behind a column that names another one.
    CheckOfOtherColumn = 3813 "HY000" 400;
    /// A CHECK whose value depends on more than the row.
    CheckFunction = 3815 "HY000" 400;
    CheckOfAutoIncrement = 3818 "HY000" 400;
    CheckViolated = 3819 "HY000" 400;
    CheckOfUnknownColumn = 3820 "HY000" 400;
    NoSuchCheck = 3821 "HY000" 404;
    DuplicateCheck = 3822 "HY000" 409;
    /// An argument that is JSON of another type than the function takes.
    InvalidJsonType = 3853 "22032" 400;
    /// A column that the clause of a table's distribution names.
    PartitionColumn = 3855 "HY000" 400;
    SecondPasswordEmpty = 3878 "HY000" 400;
    CurrentPasswordOfOther = 3890 "HY000" 400;
    CurrentPasswordWrong = 3891 "HY000" 403;
    /// A new password without the current one, where the account asks for it.
    CurrentPasswordMissing = 3892 "HY000" 403;
    PasswordOfOtherPlugin = 3894 "HY000" 400;
    PasswordNotRetained = 3895 "HY000" 400;
    /// DROP CONSTRAINT of a name that a key and a CHECK have.
    SeveralConstraints = 3939 "HY000" 409;
    NoSuchConstraint = 3940 "HY000" 404;
    /// LOAD DATA LOCAL is switched off.
    LocalInfileDisabled = 3948 "42000" 400;
    /// The password of the account was wrong too often in a row.
    AccountBlocked = 3955 "HY000" 403;
    /// A column that a CHECK names is dropped or renamed.
    ColumnOfCheck = 3959 "HY000" 400;
    UnknownEngine = 1286 "42000" 400;
    /// An initialization vector of AES of fewer bytes than a block.
    ShortVector = 1882 "HY000" 400;
    /// SIGNAL of what is no SQLSTATE of a condition.
    BadSqlstate = 1407 "42000" 400;
    /// SIGNAL of a condition that says that nothing was found.
    SignalledNotFound = 1643 "02000" 404;
    /// SIGNAL of an error.
    Signalled = 1644 "45000" 400;
    /// GET DIAGNOSTICS of a condition that there is not.
    NoSuchCondition = 1758 "35000" 400;
    /// Options of a sequence that do not go together.
    SequenceInvalid = 4082 "HY000" 400;
    /// A sequence has no further value.
    SequenceRunOut = 4084 "HY000" 409;
    UnknownSequence = 4091 "42S02" 404;
    /// A column that a row policy reads is dropped or renamed.
    ColumnOfPolicy = 1105 "HY000" 400;
    PolicyExists = 1105 "HY000" 409;
    NoSuchPolicy = 1105 "HY000" 404;
    /// The label belongs to another load.
    LabelUsed = 1105 "HY000" 409;
    /// A statement that is not allowed inside a transaction.
    InTransaction = 1105 "HY000" 400;
    /// The snapshot was closed because its memory was needed elsewhere.
    SnapshotTooOld = 1105 "HY000" 503;
    /// A checksum or structure on disk is wrong.
    Corruption = 1105 "HY000" 500;
    /// The operating system refused to read or write.
    Io = 1105 "HY000" 500;
    DiskFull = 1021 "HY000" 503;
    /// The query needs more memory than its budget has.
    QueryMemory = 1038 "HY001" 503;
    /// More filtered rows than `max_filter_ratio` allows.
    TooManyFiltered = 1105 "HY000" 400;
}

/// Whether and when to send a failed request again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// Do not: it will fail again.
    No,
    Now,
    After(Duration),
    /// The request may have taken effect: send it again with the same label.
    Unknown,
}

/// An error as a client sees it; one pointer wide.
pub struct Error(Box<Inner>);

struct Inner {
    code: ErrorCode,
    message: String,
    retry: Retry,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// `message` says what happened, where, which limit was hit and what to do next.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { code, message: message.into(), retry: Retry::No, source: None }))
    }

    /// An operating system error; `doing` says which operation on which file.
    pub fn io(doing: impl fmt::Display, source: std::io::Error) -> Self {
        let code = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorCode::DiskFull
            }
            _ => ErrorCode::Io,
        };
        Self::new(code, format!("{doing}: {source}")).with_source(source)
    }

    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Sets the underlying error, which `source()` returns.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Puts `before` in front of the message.
    #[must_use]
    pub fn context(mut self, before: impl fmt::Display) -> Self {
        self.0.message = format!("{before}: {}", self.0.message);
        self
    }

    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn retry(&self) -> Retry {
        self.0.retry
    }
}

mod shown;
#[cfg(test)]
mod tests;
