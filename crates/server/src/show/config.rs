//! ADMIN SHOW FRONTEND CONFIG: settings of Doris that loads depend on, by their names there.

use freshet_base::Result;
use freshet_meta::{Object, Privilege};

use super::listing::Listing;
use crate::Shared;
use crate::session::Session;

/// A setting.
pub struct Config {
    pub name: &'static str,
    pub value: String,
    kind: &'static str,
    /// The setting here that it is; `None`: it has no effect.
    pub setting: Option<&'static str>,
}

/// Those without an effect here, with their defaults.
const FIXED: [(&str, &str, &str); 7] = [
    ("commit_timeout_second", "30", "int"),
    ("drop_backend_after_decommission", "true", "boolean"),
    // Recent loads are always remembered.
    ("enable_stream_load_record", "true", "boolean"),
    ("group_commit_timeout_multipler", "10", "int"),
    ("label_clean_interval_second", "3600", "int"),
    ("publish_version_timeout_second", "30", "int"),
    // Which a load has that names none.
    ("stream_load_default_timeout_second", "259200", "int"),
];

fn all(shared: &Shared) -> Vec<Config> {
    let labels = shared.engine.config().labels;
    let bin = shared.engine.config().recycle_bin_keep;
    let loads = &shared.settings.loads;
    let mut all = Vec::new();
    let mut is = |name, value: u64, setting| {
        all.push(Config { name, value: value.to_string(), kind: "int", setting: Some(setting) });
    };
    is("label_keep_max_second", labels.keep.as_secs(), "label_keep");
    is("streaming_label_keep_max_second", labels.keep_streaming.as_secs(), "label_keep_streaming");
    is("catalog_trash_expire_second", bin.as_secs(), "recycle_bin_keep");
    is("label_num_threshold", labels.finished_max as u64, "labels_max");
    is("max_running_txn_num_per_db", labels.running_max as u64, "labels_running_max");
    is("streaming_load_max_mb", loads.streaming_load_max_mb, "streaming_load_max_mb");
    is(
        "streaming_load_json_max_mb",
        loads.streaming_load_json_max_mb,
        "streaming_load_json_max_mb",
    );
    is(
        "stream_load_default_precommit_timeout_second",
        loads.precommit_timeout.as_secs(),
        "stream_load_default_precommit_timeout_second",
    );
    is(
        "load_error_log_reserve_hours",
        loads.error_log_keep.as_secs() / 3600,
        "load_error_log_keep",
    );
    is("load_error_log_limit_bytes", loads.error_log_bytes_max.bytes(), "load_error_log_bytes_max");
    is("qe_max_connection", shared.settings.connections_max as u64, "max_connections");
    all.extend(FIXED.map(|(name, value, kind)| Config {
        name,
        value: value.to_owned(),
        kind,
        setting: None,
    }));
    all.sort_unstable_by_key(|config| config.name);
    all
}

/// A setting by its name.
pub fn find(shared: &Shared, name: &str) -> Option<Config> {
    all(shared).into_iter().find(|config| config.name == name)
}

/// ADMIN SHOW FRONTEND CONFIG.
///
/// # Errors
/// 1227 without SUPER.
pub fn listing(session: &Session) -> Result<Listing> {
    session.authorize(Privilege::Super, Object::Server)?;
    let mut listing = Listing::new(&["Key", "Value", "Type", "IsMutable", "MasterOnly", "Comment"]);
    for config in all(&session.shared) {
        let comment = match config.setting {
            Some(setting) => format!("the setting {setting}, which a start of the server reads"),
            None => "has no effect here".to_owned(),
        };
        listing.add([config.name, &config.value, config.kind, "false", "false", &comment]);
    }
    Ok(listing)
}
