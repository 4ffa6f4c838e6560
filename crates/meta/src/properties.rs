//! Table properties: the known ones, their valid values, and error messages for others.

use freshet_base::{Result, bail, err};
use freshet_schema::{Column, GroupCommitMode, KeyModel, Properties, STORE_ROW_COLUMN};

use crate::dynamic;

/// Maximum number of replicas that a table may request, although there is only one server.
const REPLICAS_MAX: u32 = 3;
/// Maximum value of `group_commit_data_bytes`.
const DATA_BYTES_MAX: u64 = 1 << 40;
/// Maximum length of a property value, in bytes.
const VALUE_BYTES_MAX: usize = 4096;
const ALLOCATION_TAG: &str = "tag.location.default";

const INTERVAL: &str = "group_commit_interval_ms";
const DATA_BYTES: &str = "group_commit_data_bytes";
const MODE: &str = "group_commit_mode";
const REPLICATION_NUM: &str = "replication_num";
const REPLICATION_ALLOCATION: &str = "replication_allocation";
/// What partitions get that are added from then on; a table has one number here.
const DEFAULT_REPLICATION_NUM: &str = "default.replication_num";
const DEFAULT_REPLICATION_ALLOCATION: &str = "default.replication_allocation";
const LIGHT_SCHEMA_CHANGE: &str = "light_schema_change";
/// What `ALTER TABLE .. PAUSE LOAD` sets.
pub const PAUSE_LOAD: &str = "pause_load";
const BLOOM_FILTER_COLUMNS: &str = "bloom_filter_columns";

/// Properties of Doris without an effect here; they are kept as written.
const KEPT: &[&str] = &[
    BLOOM_FILTER_COLUMNS,
    "binlog.enable",
    "binlog.max_bytes",
    "binlog.max_history_nums",
    "binlog.ttl_seconds",
    "colocate_with",
    "compaction_policy",
    "compression",
    "disable_auto_compaction",
    "dynamic_schema",
    "enable_duplicate_without_keys_by_default",
    "enable_mow_light_delete",
    "enable_single_replica_compaction",
    "enable_unique_key_skip_bitmap_column",
    "estimate_partition_size",
    "in_memory",
    "inverted_index_storage_format",
    "is_being_synced",
    LIGHT_SCHEMA_CHANGE,
    "min_load_replica_num",
    PAUSE_LOAD,
    "skip_write_index_on_load",
    "storage_cooldown_time",
    "storage_format",
    "storage_medium",
    "storage_page_size",
    "storage_policy",
    STORE_ROW_COLUMN,
    "time_series_compaction_file_count_threshold",
    "time_series_compaction_goal_size_mbytes",
    "time_series_compaction_time_threshold_seconds",
    "variant_enable_flatten_nested",
];

/// Accepted for unique-key tables, without effect: what a row replaces is always found when it is
/// written.
const MERGE_ON_WRITE: &str = "enable_unique_key_merge_on_write";
/// The column by whose value one of several rows of a key stays.
pub(crate) const SEQUENCE_COL: &str = "function_column.sequence_col";
/// The type of a hidden column for it.
pub(crate) const SEQUENCE_TYPE: &str = "function_column.sequence_type";
/// Properties of tables with the unique key model.
const UNIQUE_ONLY: &[&str] = &[MERGE_ON_WRITE, SEQUENCE_COL, SEQUENCE_TYPE];

/// Accepted properties, with warnings for the user.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub properties: Properties,
    pub warnings: Vec<String>,
}

/// The properties of a new table.
pub(crate) fn create(model: KeyModel, pairs: &[(String, String)]) -> Result<Accepted> {
    let unknown = pairs.iter().filter(|(key, _)| !is_known(key));
    let unknown = unknown.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
    if !unknown.is_empty() {
        bail!(Unknown, "Unknown properties: {{{}}}", unknown.join(", "));
    }
    accept(model, Properties::default(), pairs)
}

/// The properties of a table after ALTER TABLE .. SET.
pub(crate) fn set(
    model: KeyModel,
    now: &Properties,
    pairs: &[(String, String)],
) -> Result<Accepted> {
    let unknown = pairs.iter().filter(|(key, _)| !is_known(key));
    let unknown = unknown.map(|(key, _)| key.as_str()).collect::<Vec<_>>();
    if !unknown.is_empty() {
        bail!(Unknown, "Unknown table property: [{}]", unknown.join(", "));
    }
    let light = |(key, value): &&(String, String)| {
        key == LIGHT_SCHEMA_CHANGE && !value.eq_ignore_ascii_case("true")
    };
    if pairs.iter().any(|pair| light(&pair)) {
        bail!(Unknown, "Can not alter {LIGHT_SCHEMA_CHANGE} from true to false");
    }
    let written = now.others.iter().find(|(key, _)| key == MERGE_ON_WRITE);
    let merges = written.map_or("true", |(_, value)| value.as_str());
    let is_other = |(key, value): &&(String, String)| {
        model == KeyModel::Unique && key == MERGE_ON_WRITE && !value.eq_ignore_ascii_case(merges)
    };
    if let Some((_, value)) = pairs.iter().find(is_other) {
        bail!(
            NotSupported,
            "Can not alter {MERGE_ON_WRITE} to {value}: a table keeps what CREATE TABLE says"
        );
    }
    let is_sequence = |(key, _): &&(String, String)| matches!(&**key, SEQUENCE_COL | SEQUENCE_TYPE);
    if let Some((key, _)) = pairs.iter().find(is_sequence) {
        bail!(
            NotSupported,
            "Can not alter {key}: which of several rows of a key stays is said by CREATE TABLE"
        );
    }
    accept(model, now.clone(), pairs)
}

/// Checks that the table has the columns that properties name.
///
/// # Errors
/// In the words of Doris.
pub(crate) fn check_columns(pairs: &[(String, String)], columns: &[Column]) -> Result<()> {
    let named = pairs.iter().filter(|(key, _)| key == BLOOM_FILTER_COLUMNS);
    for name in named.flat_map(|(_, value)| value.split(',')).map(str::trim) {
        let is_it = |column: &Column| column.name.eq_ignore_ascii_case(name);
        if !name.is_empty() && !columns.iter().any(is_it) {
            bail!(Unknown, "Bloom filter column does not exist in table. invalid column: {name}");
        }
    }
    Ok(())
}

/// All properties in effect, as SHOW CREATE TABLE prints them.
pub(crate) fn effective(model: KeyModel, properties: &Properties) -> Vec<(String, String)> {
    let replicas = format!("{ALLOCATION_TAG}: {}", properties.replication_num);
    let mut pairs = vec![(REPLICATION_ALLOCATION.to_owned(), replicas)];
    pairs.extend(properties.others.iter().cloned());
    if model == KeyModel::Unique && !pairs.iter().any(|(key, _)| key == MERGE_ON_WRITE) {
        pairs.push((MERGE_ON_WRITE.to_owned(), "true".to_owned()));
    }
    if !pairs.iter().any(|(key, _)| key == LIGHT_SCHEMA_CHANGE) {
        pairs.push((LIGHT_SCHEMA_CHANGE.to_owned(), "true".to_owned()));
    }
    pairs.push((INTERVAL.to_owned(), properties.group_commit_interval_ms.to_string()));
    pairs.push((DATA_BYTES.to_owned(), properties.group_commit_data_bytes.to_string()));
    pairs.push((MODE.to_owned(), properties.group_commit_mode.name().to_owned()));
    pairs
}

fn is_known(key: &str) -> bool {
    matches!(key, INTERVAL | DATA_BYTES | MODE | REPLICATION_NUM | REPLICATION_ALLOCATION)
        || matches!(key, DEFAULT_REPLICATION_NUM | DEFAULT_REPLICATION_ALLOCATION)
        || KEPT.contains(&key)
        || dynamic::is_known(key)
        || UNIQUE_ONLY.contains(&key)
}

fn accept(
    model: KeyModel,
    mut properties: Properties,
    pairs: &[(String, String)],
) -> Result<Accepted> {
    let mut warnings = Vec::new();
    for (key, value) in pairs {
        if value.len() > VALUE_BYTES_MAX {
            bail!(
                Unknown,
                "value of property '{key}' has {} bytes, limit {VALUE_BYTES_MAX}",
                value.len()
            );
        }
        match key.as_str() {
            INTERVAL => {
                properties.group_commit_interval_ms = non_negative(key, value, i32::MAX as u64)?;
            }
            DATA_BYTES => {
                properties.group_commit_data_bytes = non_negative(key, value, DATA_BYTES_MAX)?;
            }
            MODE => properties.group_commit_mode = mode(value)?,
            REPLICATION_NUM | DEFAULT_REPLICATION_NUM => {
                properties.replication_num = replicas(value)?;
                warnings.extend(replica_warning(properties.replication_num));
            }
            REPLICATION_ALLOCATION | DEFAULT_REPLICATION_ALLOCATION => {
                properties.replication_num = replicas(allocation(value)?)?;
                warnings.extend(replica_warning(properties.replication_num));
            }
            LIGHT_SCHEMA_CHANGE | STORE_ROW_COLUMN => {
                flag(key, value)?;
                keep(&mut properties.others, key, value);
            }
            PAUSE_LOAD => {
                properties.others.retain(|(known, _)| known != PAUSE_LOAD);
                if flag(key, value)? {
                    keep(&mut properties.others, key, "true");
                }
            }
            MERGE_ON_WRITE if model == KeyModel::Unique => {
                keep(&mut properties.others, key, value);
            }
            // The columns have what they say.
            SEQUENCE_COL | SEQUENCE_TYPE if model == KeyModel::Unique => {}
            _ if UNIQUE_ONLY.contains(&key.as_str()) => refuse_unique(model, key, value)?,
            _ => keep(&mut properties.others, key, value),
        }
    }
    Ok(Accepted { properties, warnings })
}

fn non_negative(key: &str, value: &str, max: u64) -> Result<u64> {
    let number = value.trim().parse::<i64>();
    let number = number.map_err(|_| err!(Unknown, "Invalid {key} format: {value}"))?;
    let Ok(number) = u64::try_from(number) else {
        bail!(Unknown, "{key} can not be less than 0:{number}");
    };
    if number > max {
        bail!(Unknown, "{key} can not be more than {max}:{number}");
    }
    Ok(number)
}

fn flag(key: &str, value: &str) -> Result<bool> {
    value
        .to_ascii_lowercase()
        .parse::<bool>()
        .map_err(|_| err!(Unknown, "Invalid {key} format: {value}. It can only be true or false"))
}

fn mode(value: &str) -> Result<GroupCommitMode> {
    GroupCommitMode::parse(value).ok_or_else(|| {
        err!(
            Unknown,
            "Invalid {MODE} value: {value}. It can only be off_mode, sync_mode or async_mode"
        )
    })
}

fn replicas(value: &str) -> Result<u32> {
    let number = value.trim().parse::<i64>();
    let number = number.map_err(|_| err!(Unknown, "Invalid {REPLICATION_NUM} format: {value}"))?;
    if number <= 0 {
        bail!(Unknown, "Replication num should be > 0, it is {number}");
    }
    if number > i64::from(REPLICAS_MAX) {
        bail!(
            Unknown,
            "replication num should be less than the number of available backends. \
             replication num is {number}, available backend num is 1; \
             this server takes 1 to {REPLICAS_MAX}"
        );
    }
    Ok(u32::try_from(number).expect("1 to 3 fits"))
}

/// The number in `tag.location.default: N`.
fn allocation(value: &str) -> Result<&str> {
    match value.split_once(':') {
        Some((tag, number)) if tag.trim() == ALLOCATION_TAG => Ok(number.trim()),
        _ => bail!(
            Unknown,
            "Invalid {REPLICATION_ALLOCATION} format: {value}. \
             It must be '{ALLOCATION_TAG}: N'"
        ),
    }
}

fn replica_warning(number: u32) -> Option<String> {
    (number > 1).then(|| {
        format!(
            "{REPLICATION_NUM} is {number}, but there is one server: it keeps one copy and \
             remembers the number"
        )
    })
}

fn refuse_unique(model: KeyModel, key: &str, value: &str) -> Result<()> {
    if model == KeyModel::Unique {
        bail!(Internal, "property {key} is of tables with a UNIQUE KEY");
    }
    if value.eq_ignore_ascii_case("false") {
        return Ok(());
    }
    bail!(Unknown, "{key} property only support unique key table")
}

fn keep(others: &mut Vec<(String, String)>, key: &str, value: &str) {
    match others.iter_mut().find(|(known, _)| known == key) {
        Some(pair) => value.clone_into(&mut pair.1),
        None => others.push((key.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn refused(written: &[(&str, &str)]) -> String {
        create(KeyModel::Duplicate, &pairs(written)).unwrap_err().message().to_owned()
    }

    #[test]
    fn properties_are_refused_in_the_words_of_doris() {
        assert_eq!(refused(&[("nope", "1")]), "Unknown properties: {nope=1}");
        let interval = |value| refused(&[("group_commit_interval_ms", value)]);
        assert_eq!(interval("-5"), "group_commit_interval_ms can not be less than 0:-5");
        assert_eq!(interval("x"), "Invalid group_commit_interval_ms format: x");
        let bytes = |value| refused(&[("group_commit_data_bytes", value)]);
        assert_eq!(bytes("-1"), "group_commit_data_bytes can not be less than 0:-1");
        assert_eq!(bytes(""), "Invalid group_commit_data_bytes format: ");
        assert!(refused(&[("replication_num", "0")]).contains("should be > 0"));
        let four = refused(&[("replication_num", "4")]);
        assert!(four.contains("replication num is 4, available backend num is 1"), "{four}");
        let unique = refused(&[("enable_unique_key_merge_on_write", "true")]);
        assert!(unique.contains("property only support unique key table"), "{unique}");
        let unknown =
            set(KeyModel::Duplicate, &Properties::default(), &pairs(&[("k", "v")])).unwrap_err();
        assert_eq!(unknown.message(), "Unknown table property: [k]");
    }

    #[test]
    fn the_default_number_of_replicas_is_that_of_the_table() {
        let written = [("default.replication_num", "3")];
        let set = |written: &[(&str, &str)]| {
            set(KeyModel::Duplicate, &Properties::default(), &pairs(written))
        };
        assert_eq!(set(&written).unwrap().properties.replication_num, 3);
        let written = [("default.replication_allocation", "tag.location.default: 2")];
        assert_eq!(set(&written).unwrap().properties.replication_num, 2);
        assert!(set(&[("default.replication_num", "0")]).unwrap_err().message().contains("> 0"));
    }

    #[test]
    fn unique_key_tables_have_properties_of_their_own() {
        let create = |written: &[(&str, &str)]| create(KeyModel::Unique, &pairs(written));
        let kept = create(&[(MERGE_ON_WRITE, "false")]).unwrap().properties.others;
        assert!(kept.contains(&(MERGE_ON_WRITE.to_owned(), "false".to_owned())), "{kept:?}");
        let sequence = create(&[(SEQUENCE_COL, "v")]).unwrap().properties.others;
        assert_eq!(sequence, [], "its columns say so");
        let now = Properties::default();
        let error = set(KeyModel::Unique, &now, &pairs(&[(SEQUENCE_TYPE, "int")])).unwrap_err();
        assert!(error.message().contains("Can not alter"), "{error}");
        let merges =
            |now: &Properties, to| set(KeyModel::Unique, now, &pairs(&[(MERGE_ON_WRITE, to)]));
        assert!(merges(&now, "false").unwrap_err().message().contains("Can not alter"));
        assert!(merges(&now, "TRUE").is_ok(), "it stays as it is");
        let now = create(&[(MERGE_ON_WRITE, "false")]).unwrap().properties;
        assert!(merges(&now, "false").is_ok() && merges(&now, "true").is_err());
    }

    #[test]
    fn more_replicas_than_servers_are_taken_with_a_warning() {
        let taken = create(KeyModel::Duplicate, &pairs(&[("replication_num", "3")])).unwrap();
        assert_eq!(taken.properties.replication_num, 3);
        assert_eq!(taken.warnings.len(), 1);
        assert!(
            create(KeyModel::Duplicate, &pairs(&[("replication_num", "1")]))
                .unwrap()
                .warnings
                .is_empty()
        );
    }

    #[test]
    fn what_is_shown_can_be_written_again() {
        let written = pairs(&[
            ("replication_num", "2"),
            ("compression", "zstd"),
            ("group_commit_interval_ms", "50"),
            ("group_commit_mode", "ASYNC_MODE"),
        ]);
        let first = create(KeyModel::Duplicate, &written).unwrap().properties;
        let shown = effective(KeyModel::Duplicate, &first);
        assert!(shown.contains(&(
            "replication_allocation".to_owned(),
            "tag.location.default: 2".to_owned()
        )));
        let second = create(KeyModel::Duplicate, &shown).unwrap().properties;
        assert_eq!(effective(KeyModel::Duplicate, &second), shown);
        assert_eq!(second.group_commit_interval_ms, 50);
        assert_eq!(second.group_commit_mode, GroupCommitMode::Async);
    }

    #[test]
    fn set_changes_what_it_names_only() {
        let first =
            create(KeyModel::Duplicate, &pairs(&[("compression", "zstd")])).unwrap().properties;
        let written = pairs(&[("group_commit_data_bytes", "1024"), ("compression", "lz4")]);
        let second = set(KeyModel::Duplicate, &first, &written).unwrap().properties;
        assert_eq!(second.group_commit_data_bytes, 1024);
        assert_eq!(second.group_commit_interval_ms, 10_000);
        assert_eq!(second.others, pairs(&[("compression", "lz4")]));
        assert!(
            set(KeyModel::Duplicate, &first, &pairs(&[("light_schema_change", "false")])).is_err()
        );
    }
}
