//! Endpoints for tools and monitoring: health, metrics, load states, table schemas.

use freshet_base::{Result, bail};
use freshet_meta::{
    Account, LabelState, Object, Privilege, UsedLabel, authorize, may_see_table, require_visible,
};
use freshet_schema::{Aggregate, Column, ColumnType, KeyModel};
use freshet_storage::view::TableView;
use serde_json::{Value, json};

use super::Http;
use super::answer::{Answer, json_reply};
use super::client::Client;

/// The maximum number of nodes in one `get_wal_size` request.
const NODES_MAX: usize = 1024;

/// Always healthy: HTTP is served only once the engine is open.
pub(super) fn health() -> Answer {
    let nodes = r#"{"online_backend_num":1,"total_backend_num":1}"#;
    json_reply(format!(r#"{{"msg":"success","code":0,"data":{nodes},"count":0}}"#))
}

/// All metrics in the Prometheus text format; gauges are updated first.
pub(super) fn metrics(http: &Http) -> String {
    let engine = &http.engine;
    let metrics = engine.metrics();
    let gauge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let tables = engine.table_states();
    let delta = tables.iter().map(|state| state.delta.stats().bytes).sum();
    let versions = tables.iter().map(|state| state.version().get()).sum();
    metrics.delta_bytes.set(gauge(delta));
    metrics.versions.set(gauge(versions));
    metrics.write_memory_bytes.set(gauge(engine.memory().used_bytes()));
    metrics.client_memory_bytes.set(gauge(http.accounts.kept().used_bytes()));
    let pins = engine.views().pins();
    metrics.snapshot_memory_bytes.set(gauge(pins.memory().used_bytes()));
    let footers = engine.segments().footer_memory().used_bytes();
    metrics.footer_memory_bytes.set(gauge(footers));
    metrics
        .key_memory_bytes
        .set(gauge(engine.key_memory().used_bytes() + engine.key_block_bytes()));
    metrics.snapshots.set(gauge(pins.count() as u64));
    metrics.snapshots_closed.set(gauge(pins.closed()));
    let open = engine.open_groups() as u64;
    metrics.wal_total_count.set(gauge(open));
    metrics.held_back.wal_max_count_per_table.set(gauge(open.min(1)));
    metrics.held_back.by_log.set(gauge(engine.log_refusals()));
    metrics.held_back.by_memory.set(gauge(engine.memory().waited()));
    metrics.held_back.by_keys.set(gauge(engine.key_waits()));
    let view = engine.views().load();
    let rowsets = |table: &TableView| {
        table.tablets.iter().map(|tablet| tablet.rowsets.len() as u64).sum::<u64>()
    };
    metrics.rowsets.set(gauge(view.tables.values().map(|table| rowsets(table)).sum()));
    metrics.render()
}

pub(super) fn bootstrap(http: &Http) -> Value {
    json!({
        "replayedJournalId": http.engine.horizon().get().get(),
        "queryPort": http.config.mysql_port,
        "rpcPort": 0,
        "arrowFlightSqlPort": 0,
        "version": http.config.version,
    })
}

pub(super) fn backends(client: &Client) -> Value {
    let (ip, port) = (client.local.ip().to_string(), client.local.port());
    json!({ "backends": [{ "ip": ip, "http_port": port, "is_alive": true }] })
}

/// Open groups with rows, for each requested node; all of them are this server.
pub(super) fn wal_size(http: &Http, client: &Client, host_ports: &str) -> Value {
    let groups = http.engine.open_groups();
    let asked = host_ports.split(',').map(str::trim).filter(|node| !node.is_empty());
    let mut nodes: Vec<String> =
        asked.take(NODES_MAX).map(|node| format!("{node}:{groups}")).collect();
    if nodes.is_empty() {
        nodes.push(format!("{}:{groups}", client.local));
    }
    json!(nodes)
}

/// The state of the load with a label.
pub(super) async fn load_state(
    http: &Http,
    account: &Account,
    database: &str,
    label: &str,
) -> Result<Value> {
    let used = used_label(http, account, database, label).await?;
    Ok(json!(match used.map(|used| used.state) {
        None => "UNKNOWN",
        Some(LabelState::Running) => "PREPARE",
        Some(LabelState::Prepared) => "PRECOMMITTED",
        Some(LabelState::Visible) => "VISIBLE",
    }))
}

/// The state of a load in the form of `_load_info`.
pub(super) async fn load_info(
    http: &Http,
    account: &Account,
    database: &str,
    label: &str,
) -> Result<Answer> {
    let Some(used) = used_label(http, account, database, label).await? else {
        bail!(NoSuchTable, "label [{label}] is not used in database '{database}'");
    };
    let state = match used.state {
        LabelState::Running | LabelState::Prepared => "LOADING",
        LabelState::Visible => "FINISHED",
    };
    let catalog = http.engine.catalog();
    let note = http.book.find(database, label);
    let actor = http.actor(account);
    let note = note.filter(|note| may_see_table(&catalog, actor, database, &note.table));
    let url = note.as_ref().and_then(|note| note.error_url_for(&catalog, actor));
    let info = json!({
        "dbName": database,
        "tblNames": note.iter().map(|note| note.table.as_str()).collect::<Vec<_>>(),
        "label": label,
        "state": state,
        "failMsg": "",
        "trackingUrl": url.unwrap_or(""),
        "status": "OK",
        "msg": "Success",
    });
    Ok(json_reply(info.to_string()))
}

async fn used_label(
    http: &Http,
    account: &Account,
    database: &str,
    label: &str,
) -> Result<Option<UsedLabel>> {
    if label.is_empty() {
        bail!(WrongArguments, "No label selected");
    }
    let catalog = http.engine.catalog();
    require_visible(&catalog, http.actor(account), database)?;
    let db = catalog.require_database(database)?.id;
    Ok(http.engine.used_label(db, label).await)
}

/// The columns of a table, in the form that connectors expect.
pub(super) fn schema(http: &Http, account: &Account, database: &str, table: &str) -> Result<Value> {
    let catalog = http.engine.catalog();
    authorize(&catalog, http.actor(account), Privilege::Select, Object::Table(database, table))?;
    let table = catalog.require_table(database, table)?;
    let columns: Vec<Value> = table.schema().shown().iter().map(described).collect();
    let keys = match table.key_model {
        KeyModel::Primary if table.has_row_ids() => "DUP_KEYS",
        KeyModel::Duplicate => "DUP_KEYS",
        KeyModel::Unique | KeyModel::Primary => "UNIQUE_KEYS",
        KeyModel::Aggregate => "AGG_KEYS",
    };
    Ok(json!({ "properties": columns, "keysType": keys, "status": 200 }))
}

fn described(column: &Column) -> Value {
    let mut described = json!({
        "name": column.name,
        "type": column.ty.data_type_name().to_ascii_uppercase(),
        "comment": column.comment,
        "aggregation_type": column.aggregate.map_or("", Aggregate::name),
        "is_nullable": if column.nullable { "Yes" } else { "No" },
    });
    if let ColumnType::Decimal { precision, scale } = column.ty {
        described["precision"] = json!(precision);
        described["scale"] = json!(scale);
    }
    described
}

/// Columns can always be added and dropped at once, unless the table says otherwise.
pub(super) fn light_change(
    http: &Http,
    account: &Account,
    database: &str,
    table: &str,
) -> Result<Value> {
    let catalog = http.engine.catalog();
    authorize(&catalog, http.actor(account), Privilege::Alter, Object::Table(database, table))?;
    let table = catalog.require_table(database, table)?;
    if !table.properties.is_light() {
        bail!(WrongArguments, "table '{}' has light_schema_change = false", table.name);
    }
    Ok(Value::Null)
}

/// `/rest/v1/system`, of the one path that connectors ask for.
pub(super) fn system(client: &Client, path: &str) -> Result<Value> {
    if path.trim_matches('/') != "backends" {
        bail!(NotSupported, "there is /rest/v1/system?path=//backends alone");
    }
    let (ip, port) = (client.local.ip().to_string(), client.local.port().to_string());
    let names = ["BackendId", "IP", "Host", "HeartbeatPort", "BePort", "HttpPort", "Alive"];
    let row = json!({
        "BackendId": "1",
        "IP": ip,
        "Host": ip,
        "HeartbeatPort": "0",
        "BePort": "0",
        "HttpPort": port,
        "Alive": "true",
    });
    Ok(json!({ "column_names": names, "rows": [row] }))
}

/// The nodes of `/rest/v2/manager/node`: this one, by the port of what is asked for.
pub(super) fn node_list(port: u16, client: &Client) -> Value {
    json!([format!("{}:{port}", client.local.ip())])
}
