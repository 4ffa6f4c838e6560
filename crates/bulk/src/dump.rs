//! `freshet dump`: tables into files, a connection a table, row by row.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use crate::args::{Ddl, DumpArgs, FormatName, Server};
use crate::connection::{Connection, Receiver, ResultColumn};
use crate::convert::for_freshet;
use crate::encode::Encoder;
use crate::exit::{Failure, Result};
use crate::inputs::format;
use crate::meter::Meter;
use crate::outputs::Outputs;
use crate::schema::{TableInfo, quoted, text_literal};
use crate::stop::Stop;

/// How many rows the meter shows at a time: showing a row takes longer than writing it.
const ROWS_SHOWN: u64 = 4096;

/// A run of `freshet dump`.
struct Run<'a> {
    args: &'a DumpArgs,
    database: &'a str,
    tables: Vec<String>,
    next_table: AtomicUsize,
    meter: Meter,
    stop: Stop,
    failure: Mutex<Option<Failure>>,
}

/// Dumps what the options name.
///
/// # Errors
/// What went wrong first, with the code to exit with.
pub fn dump(args: &DumpArgs) -> Result<()> {
    let args = DumpArgs { server: args.server.clone().with_environment(), ..args.clone() };
    if args.text.format == FormatName::Parquet {
        return Err(Failure::usage("--format parquet is for load; a dump is csv, tsv or json"));
    }
    let database = args.database.as_deref();
    let database = database.ok_or_else(|| Failure::usage("say by --database what to dump"))?;
    let tables = tables_of(&mut open(&args.server)?, database, &args)?;
    let to_stdout = args.output.is_none();
    if to_stdout && (tables.len() != 1 || args.files > 1 || args.rows_per_file.is_some()) {
        return Err(Failure::usage(format!(
            "standard output takes one table in one file, and this is {} tables; name a directory \
             by --output",
            tables.len()
        )));
    }
    if let Some(dir) = &args.output {
        std::fs::create_dir_all(dir).map_err(Failure::of(dir.display()))?;
    }
    let run = Run {
        args: &args,
        database,
        tables,
        next_table: AtomicUsize::new(0),
        meter: Meter::new(0, args.quiet || to_stdout),
        stop: Stop::at_signals()?,
        failure: Mutex::new(None),
    };
    run.all()
}

fn open(server: &Server) -> Result<Connection> {
    let failed = |error| Failure::failed(format!("{}: {error}", server.mysql_place()));
    Connection::open(server).map_err(failed)
}

/// The tables that the options name, or all of the database.
fn tables_of(connection: &mut Connection, database: &str, args: &DumpArgs) -> Result<Vec<String>> {
    let kinds = if args.with_views { "'BASE TABLE', 'VIEW'" } else { "'BASE TABLE'" };
    let all = connection.rows(&format!(
        "SELECT TABLE_NAME FROM information_schema.tables WHERE TABLE_SCHEMA = {} AND TABLE_TYPE \
         IN ({kinds}) ORDER BY TABLE_NAME",
        text_literal(database)
    ))?;
    let named: Vec<_> = args.tables.iter().chain(&args.table).cloned().collect();
    let tables = match named.is_empty() {
        true => all.into_iter().flatten().flatten().collect(),
        false => named,
    };
    match tables.iter().find(|name| args.output.is_some() && !is_file_name(name)) {
        Some(name) => Err(Failure::usage(format!(
            "the table '{name}' cannot give its name to a file; dump it to standard output"
        ))),
        None if tables.is_empty() => {
            Err(Failure::failed(format!("there is no table in '{database}'")))
        }
        None => Ok(tables),
    }
}

/// Whether files can be named so, and `load` finds the table again by the name.
fn is_file_name(table: &str) -> bool {
    !table.is_empty() && !table.contains(['/', '.', '\0'])
}

impl Run<'_> {
    fn all(&self) -> Result<()> {
        let connections = usize::from(self.args.parallel).min(self.tables.len());
        thread::scope(|scope| {
            for _ in 0..connections {
                scope.spawn(|| self.some());
            }
        });
        self.meter.finish();
        let (rows, seconds) = (self.meter.rows(), self.meter.seconds());
        match self.failure.lock().take() {
            Some(failure) => Err(failure),
            None if self.args.quiet || self.args.output.is_none() => Ok(()),
            None => {
                let tables = self.tables.len();
                eprintln!("freshet: {rows} rows of {tables} tables in {seconds:.1} s");
                Ok(())
            }
        }
    }

    /// Dumps tables until there are none left.
    fn some(&self) {
        let mut connection = None;
        while !self.stop.is_set() {
            let at = self.next_table.fetch_add(1, Ordering::Relaxed);
            let Some(table) = self.tables.get(at) else { return };
            let opened = match connection.take() {
                Some(connection) => Ok(connection),
                None => open(&self.args.server),
            };
            let dumped = opened.and_then(|mut opened| {
                self.table(&mut opened, table)?;
                connection = Some(opened);
                Ok(())
            });
            if let Err(failure) = dumped {
                self.failure.lock().get_or_insert(failure);
                self.stop.fail();
            }
        }
        if self.stop.is_signalled() {
            self.failure.lock().get_or_insert(Failure::stopped());
        }
    }

    fn table(&self, connection: &mut Connection, name: &str) -> Result<()> {
        let args = self.args;
        let table = TableInfo::of(connection, self.database, name)?;
        let outputs = Outputs::new(args, name);
        if args.ddl != Ddl::None {
            outputs.write_ddl(&definition(connection, &table, args)?)?;
        }
        if args.ddl == Ddl::Only {
            return Ok(());
        }
        let columns = columns_of(&table, args)?;
        let mut sql = format!("SELECT {} FROM {}", columns.join(", "), table.quoted());
        for (word, clause) in [("WHERE", &args.condition), ("ORDER BY", &args.order_by)] {
            if let Some(clause) = clause {
                sql += &format!(" {word} {clause}");
            }
        }
        let format = format(args.text.format, &args.text)?;
        let encoder = Encoder::new(format, args.quote, args.header);
        let mut rows = Rows { run: self, encoder, outputs, line: Vec::new(), rows: 0, bytes: 0 };
        connection.stream(&sql, &mut rows)?;
        rows.show();
        rows.outputs.finish()
    }
}

/// The columns to select: the ones that are named, or all that a row can be made of again.
fn columns_of(table: &TableInfo, args: &DumpArgs) -> Result<Vec<String>> {
    let Some(names) = &args.columns else {
        let stored = table.columns.iter().filter(|column| !column.is_generated);
        return Ok(stored.map(|column| quoted(&column.name)).collect());
    };
    let column = |name: &str| match table.position(name) {
        Some(at) => Ok(quoted(&table.columns[at].name)),
        None => {
            let table = table.quoted();
            Err(Failure::usage(format!("--columns names '{name}', which {table} does not have")))
        }
    };
    names.split([',', ';']).map(|name| column(name.trim().trim_matches('`'))).collect()
}

/// The statements that create a table again.
fn definition(connection: &mut Connection, table: &TableInfo, args: &DumpArgs) -> Result<String> {
    let rows = connection.rows(&format!("SHOW CREATE TABLE {}", table.quoted()))?;
    let mut cells = rows.into_iter().next().unwrap_or_default().into_iter();
    let Some(create) = cells.nth(1).flatten() else {
        let table = table.quoted();
        return Err(Failure::failed(format!("SHOW CREATE TABLE {table} gives no definition")));
    };
    let kind = if create.starts_with("CREATE TABLE") { "TABLE" } else { "VIEW" };
    let create = if args.for_freshet { for_freshet(&create) } else { create };
    let drop = match args.drop_table {
        true => format!("DROP {kind} IF EXISTS {};\n", quoted(&table.name)),
        false => String::new(),
    };
    Ok(format!("{drop}{create};\n"))
}

/// Takes the rows of a table.
struct Rows<'a> {
    run: &'a Run<'a>,
    encoder: Encoder,
    outputs: Outputs<'a>,
    line: Vec<u8>,
    /// What the meter does not show yet.
    rows: u64,
    bytes: u64,
}

impl Receiver for Rows<'_> {
    fn columns(&mut self, columns: Vec<ResultColumn>) -> Result<()> {
        let head = self.encoder.head(columns)?;
        self.outputs.begin(head)
    }

    fn row(&mut self, row: &[Option<&[u8]>]) -> Result<()> {
        if self.run.stop.is_set() {
            return Err(Failure::stopped());
        }
        self.line.clear();
        self.encoder.put(row, &mut self.line)?;
        self.outputs.write(&self.line)?;
        (self.rows, self.bytes) = (self.rows + 1, self.bytes + self.line.len() as u64);
        if self.rows == ROWS_SHOWN {
            self.show();
        }
        Ok(())
    }
}

impl Rows<'_> {
    fn show(&mut self) {
        self.run.meter.read(std::mem::take(&mut self.bytes));
        self.run.meter.arrived(std::mem::take(&mut self.rows));
    }
}
