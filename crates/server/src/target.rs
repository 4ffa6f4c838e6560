//! Where the rows of an INSERT go and how its values are read: looked up once for each shape of
//! statement, kept by sessions and prepared statements.

use freshet_base::Result;
use freshet_ingest::decode::InsertPlan;
use freshet_ingest::{Engine, LoadTarget};
use freshet_schema::Rules;

use crate::settings::Settings;

/// Statement heads that a session remembers.
const HEADS_MAX: usize = 8;
/// Longest head that is remembered.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// Where rows of one statement shape go.
pub struct Target {
    generation: u64,
    settings: u64,
    /// The table.
    pub into: LoadTarget,
    /// `database.table`.
    pub name: String,
    /// Which value is for which column.
    pub plan: InsertPlan,
    /// How values are read.
    pub rules: Rules,
    /// Whether its loads may share groups.
    pub groups: bool,
    /// Which part of a statement's rows may be left out; `None` where every bad row fails it.
    pub filter_ratio: Option<f64>,
}

impl Target {
    /// A target under the catalog of `generation`, for a session with these settings.
    ///
    /// # Errors
    /// Columns without a value.
    pub fn new<N: AsRef<str>>(
        engine: &Engine,
        settings: &Settings,
        generation: u64,
        database: &str,
        into: LoadTarget,
        columns: Option<&[N]>,
    ) -> Result<Self> {
        let table = into.table();
        let rules = *settings.rules(table.form);
        let filter_ratio = settings.filter_ratio(table.form);
        let plan = InsertPlan::new(into.schema(), columns, engine.clock().wall_micros(), &rules)?;
        let plan = plan.filtering(filter_ratio.is_some());
        let heavy = |(name, value): &(String, String)| {
            name == "light_schema_change" && value.eq_ignore_ascii_case("false")
        };
        let groups = !table.properties.others.iter().any(heavy);
        let name = format!("{database}.{}", table.name);
        let settings = settings.version;
        Ok(Self { generation, settings, name, plan, rules, groups, filter_ratio, into })
    }

    /// Whether names, grants and settings are still those of when it was resolved.
    pub fn is_current(&self, engine: &Engine, settings: &Settings) -> bool {
        self.generation == engine.catalog_generation() && self.settings == settings.version
    }

    /// Reads the clock for defaults that depend on it.
    pub fn begin_statement(&mut self, now_micros: i64) {
        if self.plan.depends_on_now() {
            self.plan.set_now(now_micros, &self.rules);
        }
    }
}

/// Targets by the heads of statements, the one used last first.
#[derive(Default)]
pub struct InsertCache {
    heads: Vec<CachedHead>,
}

struct CachedHead {
    /// From INSERT to VALUES.
    head: Box<[u8]>,
    target: Box<Target>,
}

impl InsertCache {
    /// Takes the target of the statement out; it is put back after use.
    pub fn take(&mut self, sql: &[u8]) -> Option<(Box<[u8]>, Box<Target>)> {
        let at = self.heads.iter().position(|cached| {
            let rest = sql.strip_prefix(&*cached.head);
            rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
        })?;
        let cached = self.heads.remove(at);
        Some((cached.head, cached.target))
    }

    /// Keeps the target of statements that begin with `head`.
    pub fn put(&mut self, head: Box<[u8]>, target: Box<Target>) {
        if head.len() <= HEAD_BYTES_MAX {
            self.heads.truncate(HEADS_MAX - 1);
            self.heads.insert(0, CachedHead { head, target });
        }
    }
}
