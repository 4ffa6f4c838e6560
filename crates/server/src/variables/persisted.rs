//! What SET PERSIST keeps: global values that the next start has, in a file of the data directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use freshet_base::io::FsRef;
use freshet_base::task::{self, PoolRef};
use freshet_base::{Error, Result, err};
use freshet_ingest::Engine;
use freshet_query::session::Value;
use parking_lot::RwLock;
use serde_json::{Map, Value as Json, json};
use tokio::sync::Mutex;

use super::{Globals, find, require};

/// In the data directory.
pub const FILE: &str = "persisted_variables.json";
/// Of the file; another one is not read.
const FORMAT: u64 = 1;

/// Values by the names of their variables.
pub type Kept = BTreeMap<String, Value>;

/// The file, and what it has.
pub struct Persisted {
    fs: FsRef,
    pool: PoolRef,
    path: PathBuf,
    kept: RwLock<Arc<Kept>>,
    /// Held while the file is written: changes are written in the order in which they come.
    writing: Mutex<()>,
}

impl Persisted {
    /// That of a store, not read yet.
    pub fn new(engine: &Engine) -> Self {
        Self {
            fs: Arc::clone(engine.fs()),
            pool: Arc::clone(engine.pool()),
            path: engine.config().data_dir.join(FILE),
            kept: RwLock::default(),
            writing: Mutex::default(),
        }
    }

    /// What the next start will have.
    pub fn load(&self) -> Arc<Kept> {
        Arc::clone(&self.kept.read())
    }

    /// Reads the file, if there is one, and sets its values. One that this version does not take is
    /// kept and has no effect.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn begin(&self, globals: &Globals) -> Result<()> {
        let (fs, path) = (Arc::clone(&self.fs), self.path.clone());
        let read =
            task::run(&*self.pool, move || fs.exists(&path).then(|| fs.read(&path)).transpose());
        let shown = self.path.display();
        let read = read.await.map_err(|error| Error::io(format_args!("read {shown}"), error))?;
        let Some(bytes) = read else { return Ok(()) };
        let kept = decoded(&bytes).ok_or_else(|| {
            err!(
                WrongArguments,
                "{shown} is not what SET PERSIST has written: mend it, or remove it and set the \
                 variables again"
            )
        })?;
        for (name, value) in &kept {
            if let Err(error) = require(name).and_then(|id| globals.set(id, Some(value))) {
                tracing::warn!(%error, "a value of SET PERSIST has no effect");
            }
        }
        *self.kept.write() = Arc::new(kept);
        Ok(())
    }

    /// Changes what is kept; it is in the file, and synced, when this returns. The caller sees to
    /// it that this is not cancelled.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn change(&self, edit: impl FnOnce(&mut Kept) + Send) -> Result<()> {
        let _one = self.writing.lock().await;
        let before = self.load();
        let mut kept = Kept::clone(&before);
        edit(&mut kept);
        if kept == *before {
            return Ok(());
        }
        let (fs, path, bytes) = (Arc::clone(&self.fs), self.path.clone(), encoded(&kept));
        let written = task::run(&*self.pool, move || {
            fs.write_atomic(&path, &bytes)?;
            fs.close(&path).map(drop)
        });
        let failed = |error| Error::io(format_args!("write {}", self.path.display()), error);
        written.await.map_err(failed)?;
        *self.kept.write() = Arc::new(kept);
        Ok(())
    }
}

fn encoded(kept: &Kept) -> Vec<u8> {
    let of = |value: &Value| match value {
        Value::Null => Json::Null,
        Value::Int(number) => json!(number),
        Value::UInt(number) => json!(number),
        Value::Double(number) => json!(number),
        Value::Decimal(text) | Value::Text(text) => json!(text),
    };
    let variables = kept.iter().map(|(name, value)| (name.clone(), of(value)));
    let variables = Json::Object(variables.collect::<Map<_, _>>());
    let all = json!({ "format": FORMAT, "variables": variables });
    format!("{all:#}\n").into_bytes()
}

/// `None` for what is not of [`FORMAT`].
fn decoded(bytes: &[u8]) -> Option<Kept> {
    let all = serde_json::from_slice::<Json>(bytes).ok()?;
    let variables = all.get("variables")?.as_object()?;
    let of = |value: &Json| match value {
        Json::Null => Some(Value::Null),
        Json::String(text) => Some(Value::Text(text.clone())),
        Json::Number(number) => (number.as_i64().map(Value::Int))
            .or_else(|| number.as_u64().map(Value::UInt))
            .or_else(|| number.as_f64().map(Value::Double)),
        _ => None,
    };
    // A name that was written by hand may have capitals, or be an alias: RESET PERSIST and SET
    // PERSIST mean the same variable.
    let known = |name: &str| find(name).map_or(name, |id| id.variable().name).to_owned();
    let kept = variables.iter().map(|(name, value)| Some((known(name), of(value)?)));
    (all.get("format")?.as_u64()? == FORMAT).then(|| kept.collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let kept = Kept::from([
            ("a".to_owned(), Value::Int(-3)),
            ("b".to_owned(), Value::UInt(u64::MAX)),
            ("c".to_owned(), Value::Double(3.0)),
            ("d".to_owned(), Value::Text("\"\u{e4}\n".to_owned())),
            ("e".to_owned(), Value::Null),
        ]);
        assert_eq!(decoded(&encoded(&kept)), Some(kept));
        assert_eq!(decoded(&encoded(&Kept::new())), Some(Kept::new()));
    }

    #[test]
    fn names_are_those_of_the_registry() {
        let text =
            r#"{"format": 1, "variables": {"Wait_Timeout": 1, "tx_isolation": "x", "Z": 2}}"#;
        let names = decoded(text.as_bytes()).unwrap().into_keys().collect::<Vec<_>>();
        assert_eq!(names, ["Z", "transaction_isolation", "wait_timeout"]);
    }

    #[test]
    fn other_files_are_not_read() {
        for text in [
            "",
            "{}",
            r#"{"format": 2, "variables": {}}"#,
            r#"{"format": 1, "variables": {"a": [1]}}"#,
            r#"{"format": 1, "variables": {"a": 1}"#,
        ] {
            assert_eq!(decoded(text.as_bytes()), None, "{text}");
        }
    }
}
