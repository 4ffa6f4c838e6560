//! Points: a workload with a request size and a number of connections.

use crate::rows::Source;
use crate::table::{self, Table};

/// How requests carry rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// INSERT as text.
    Text,
    /// A prepared INSERT with parameters.
    Prepared,
    /// A body of CSV or lines, in the target's bulk protocol.
    Body,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Prepared => "prepared",
            Self::Body => "body",
        }
    }
}

/// The size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Rows(usize),
    /// As many rows as fit in this many bytes.
    Bytes(usize),
}

/// A point of a workload.
#[derive(Clone, Debug)]
pub struct Point {
    /// `W1` to `W10`, or the parameter of a sweep and its value.
    label: Label,
    /// The rows, and so the table.
    pub source: Source,
    pub mode: Mode,
    pub size: Size,
    pub connections: usize,
    /// The number of tables, written alternately.
    pub tables: usize,
    /// Buckets of each table; `None`: as the workload defines.
    buckets: Option<u32>,
    /// Partitions of each table; `None` if the workload does not vary them.
    partitions: Option<u32>,
    /// Whether the server is asked not to read statements in pieces.
    is_whole: bool,
    /// Requests per second over all connections; `None`: as fast as answers arrive.
    pub pace: Option<f64>,
    /// Sessions that run analytic queries meanwhile; `None` if the workload does not vary them.
    pub questioners: Option<usize>,
    /// Whether a session adds and drops a column meanwhile; `None` if the workload does not vary
    /// it.
    pub alters: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
enum Label {
    Workload(&'static str),
    /// A workload that runs long enough for every buffer to fill up.
    Long(&'static str),
    Sweep(&'static str, usize),
}

impl Point {
    fn new(
        workload: &'static str,
        source: Source,
        mode: Mode,
        size: Size,
        connections: usize,
    ) -> Self {
        let label = Label::Workload(workload);
        Self {
            label,
            source,
            mode,
            size,
            connections,
            tables: 1,
            buckets: None,
            partitions: None,
            is_whole: false,
            pace: None,
            questioners: None,
            alters: None,
        }
    }

    /// The name in results and requirements, such as `W1 ints prepared 1 x 30` and `sweep columns
    /// 100`.
    pub fn name(&self) -> String {
        let (workload, ending) = match self.label {
            Label::Sweep(what, value) => return format!("sweep {what} {value}"),
            Label::Workload(workload) => (workload, ""),
            Label::Long(workload) => (workload, " long"),
        };
        let size = match self.size {
            Size::Rows(rows) => rows.to_string(),
            Size::Bytes(bytes) if bytes >= 1_000_000 => format!("{}MB", bytes / 1_000_000),
            Size::Bytes(bytes) => format!("{}KB", bytes / 1000),
        };
        let (source, mode) = (self.source.name(), self.mode.name());
        let mut name = format!("{workload} {source} {mode} {size} x {}{ending}", self.connections);
        if self.tables > 1 {
            name.push_str(&format!(" {} tables", self.tables));
        }
        if let Some(count) = self.partitions {
            name.push_str(&format!(" in {count}"));
        }
        if self.is_whole {
            name.push_str(" whole");
        }
        if let Some(count) = self.questioners {
            name.push_str(&format!(" + {count} queries"));
        }
        if let Some(alters) = self.alters {
            name.push_str(if alters { " + alters" } else { " + no alters" });
        }
        name
    }

    pub fn tables(&self) -> Vec<Table> {
        let table = match self.source {
            Source::Ints => table::ints(),
            Source::Lineitem => table::lineitem(),
            Source::Sbtest1 | Source::Scattered => table::sbtest1(),
            Source::Httplogs => table::httplogs(),
            Source::Columns(count) => table::columns(count),
            Source::Width(bytes) => table::width(bytes),
        };
        let table = match self.buckets {
            Some(buckets) => table.with_buckets(buckets),
            None => table,
        };
        let table = match self.partitions {
            Some(count) => table.with_partitions(count),
            None => table,
        };
        let table = if self.is_whole { table.with_hint(WHOLE) } else { table };
        let table = if self.alters.is_some() { table.with_named_columns() } else { table };
        if self.tables == 1 {
            return vec![table];
        }
        (0..self.tables).map(|number| table.numbered(number)).collect()
    }
}

/// Which points of the workloads to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// The ends and the middle of each curve: minutes.
    Short,
    /// Every point: an hour or more.
    Full,
}

/// The hint of PolarDB-X that keeps a statement in one piece.
const WHOLE: &str = "/*+TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=NONE)*/ ";

/// The names that [`points`] accepts, for a message.
pub const WORKLOADS: &str = "W1 to W5, W9, W10, parts, alters, beside, long and sweeps";

/// The points of a workload; none for an unknown name.
pub fn points(workload: &str, form: Form) -> Vec<Point> {
    match workload {
        "W1" => single_rows(form),
        "W2" => hundred_rows(form),
        "W3" => thousand_ints(form),
        "W4" => sbtest1(form),
        "W5" => httplogs(form),
        "W9" => many_tables(),
        "W10" => forms(form),
        "parts" => parts(form),
        "alters" => [false, true].into_iter().flat_map(alters).collect(),
        "beside" => [0, 2].map(beside).to_vec(),
        "long" => vec![long()],
        "sweeps" => sweeps(form),
        _ => Vec::new(),
    }
}

/// Large bodies, whose form is the target's.
fn forms(form: Form) -> Vec<Point> {
    let connections: &[usize] = if form == Form::Short { &[10] } else { &[1, 10] };
    let size = Size::Bytes(10_000_000);
    let point = |n: &usize| Point::new("W10", Source::Httplogs, Mode::Body, size, *n);
    connections.iter().map(point).collect()
}

/// W1 and W2 while a column comes and goes, or not.
fn alters(alters: bool) -> Vec<Point> {
    let points = [
        Point::new("W1", Source::Ints, Mode::Prepared, Size::Rows(1), 100),
        Point::new("W2", Source::Lineitem, Mode::Text, Size::Rows(100), 20),
    ];
    points.map(|point| Point { alters: Some(alters), ..point }).to_vec()
}

/// W2 with concurrent analytic queries.
fn beside(questioners: usize) -> Point {
    let point = Point::new("W2", Source::Lineitem, Mode::Text, Size::Rows(100), 20);
    Point { questioners: Some(questioners), ..point }
}

/// W2 for as long as the command line says.
fn long() -> Point {
    let point = Point::new("W2", Source::Lineitem, Mode::Text, Size::Rows(100), 20);
    Point { label: Label::Long("W2"), ..point }
}

/// How the cost grows with one parameter while others are fixed.
fn sweeps(form: Form) -> Vec<Point> {
    let every = |short: &[usize], full: &[usize]| match form {
        Form::Short => short.to_vec(),
        Form::Full => full.to_vec(),
    };
    let point = |what, value, source, mode, rows, connections| Point {
        label: Label::Sweep(what, value),
        ..Point::new("", source, mode, Size::Rows(rows), connections)
    };
    let mut points = Vec::new();
    for n in every(&[2, 100], &[2, 10, 50, 100, 200, 500, 1000]) {
        points.push(point("columns", n, Source::Columns(n), Mode::Text, 10, 16));
    }
    for n in every(&[10, 1000], &[10, 100, 1000, 10_000]) {
        points.push(point("width", n, Source::Width(n), Mode::Text, 10, 16));
    }
    for n in every(&[1, 100], &[1, 10, 100]) {
        let point = point("buckets", n, Source::Lineitem, Mode::Text, 100, 16);
        points.push(Point { buckets: Some(n as u32), ..point });
    }
    for n in every(&[1, 100], &[1, 10, 100, 1000, 10_000]) {
        let point = point("tables", n, Source::Ints, Mode::Text, 1, 30);
        points.push(Point { tables: n, ..point });
    }
    for n in every(&[1, 1000], &[1, 2, 5, 10, 30, 100, 300, 500, 1000, 2000, 5000]) {
        points.push(point("connections", n, Source::Ints, Mode::Prepared, 1, n));
    }
    points
}

fn single_rows(form: Form) -> Vec<Point> {
    let mut points = vec![Point::new("W1", Source::Ints, Mode::Prepared, Size::Rows(1), 1)];
    for source in [Source::Ints, Source::Lineitem] {
        for connections in [30, 100, 500] {
            points.push(Point::new("W1", source, Mode::Prepared, Size::Rows(1), connections));
        }
    }
    let connections: &[usize] = if form == Form::Short { &[100] } else { &[30, 100, 500] };
    for source in [Source::Ints, Source::Lineitem] {
        let text = |n: &usize| Point::new("W1", source, Mode::Text, Size::Rows(1), *n);
        points.extend(connections.iter().map(text));
    }
    points
}

fn hundred_rows(form: Form) -> Vec<Point> {
    let connections: &[usize] = if form == Form::Short { &[10, 30] } else { &[10, 20, 30] };
    let modes = [Mode::Text, Mode::Prepared];
    let point = |mode, n: &usize| Point::new("W2", Source::Lineitem, mode, Size::Rows(100), *n);
    modes.iter().flat_map(|mode| connections.iter().map(|n| point(*mode, n))).collect()
}

fn thousand_ints(form: Form) -> Vec<Point> {
    let modes: &[Mode] =
        if form == Form::Short { &[Mode::Text] } else { &[Mode::Text, Mode::Prepared] };
    let point = |mode, n| Point::new("W3", Source::Ints, mode, Size::Rows(1000), n);
    modes.iter().flat_map(|mode| [30, 100, 500].map(|n| point(*mode, n))).collect()
}

fn sbtest1(form: Form) -> Vec<Point> {
    let (batches, connections): (&[usize], &[usize]) = match form {
        Form::Short => (&[1, 10, 100, 10_000], &[4, 16, 128]),
        Form::Full => (&[1, 10, 100, 500, 2000, 5000, 10_000], &[1, 2, 4, 8, 16, 32, 64, 128]),
    };
    let point = |rows, n| Point::new("W4", Source::Sbtest1, Mode::Text, Size::Rows(rows), n);
    let by_batch = batches.iter().map(|batch| point(*batch, 16));
    by_batch.chain(connections.iter().map(|n| point(1000, *n))).collect()
}

/// E1 and E3 to E5 of the seed on batch INSERT: tables in one and 32 partitions, statements that
/// the server may read in pieces and those that stay whole.
fn parts(form: Form) -> Vec<Point> {
    let every = |short: &[usize], full: &[usize]| match form {
        Form::Short => short.to_vec(),
        Form::Full => full.to_vec(),
    };
    let point = |rows, n, partitions, is_whole| Point {
        partitions: Some(partitions),
        is_whole,
        ..Point::new("parts", Source::Sbtest1, Mode::Text, Size::Rows(rows), n)
    };
    let batches_of = |source| {
        every(&[1000, 10_000], &[100, 1000, 10_000]).into_iter().map(move |rows| {
            let point = Point::new("parts", source, Mode::Text, Size::Rows(rows), 16);
            Point { partitions: Some(1), ..point }
        })
    };
    let ids = batches_of(Source::Sbtest1).chain(batches_of(Source::Scattered));
    let whole = every(&[2000, 10_000], &[2000, 5000, 10_000]);
    let whole = whole.into_iter().map(|rows| point(rows, 16, 1, true));
    let batches = every(&[1, 100, 1000, 10_000], &[1, 10, 100, 500, 1000, 2000, 5000, 10_000]);
    let both = batches.into_iter().flat_map(|rows| [1, 32].map(|n| point(rows, 32, n, false)));
    let large = every(&[1000, 10_000, 50_000], &[1000, 2000, 5000, 10_000, 20_000, 30_000, 50_000]);
    let large = large.into_iter().map(|rows| point(rows, 32, 32, true));
    let connections = every(&[1, 8, 96], &[1, 2, 4, 8, 16, 64, 80, 96]);
    let connections = connections.into_iter().map(|n| point(1000, n, 32, false));
    ids.chain(whole).chain(both).chain(large).chain(connections).collect()
}

fn httplogs(form: Form) -> Vec<Point> {
    let (bytes, connections): (&[usize], &[usize]) = match form {
        Form::Short => (&[10_000, 100_000, 1_000_000, 10_000_000], &[30]),
        Form::Full => (&[10_000, 100_000, 500_000, 1_000_000, 10_000_000], &[10, 30]),
    };
    let point = |bytes, n| Point::new("W5", Source::Httplogs, Mode::Body, Size::Bytes(bytes), n);
    bytes.iter().flat_map(|bytes| connections.iter().map(|n| point(*bytes, *n))).collect()
}

fn many_tables() -> Vec<Point> {
    let point = |tables| {
        let point = Point::new("W9", Source::Ints, Mode::Text, Size::Rows(1), 20);
        Point { tables, buckets: Some(10), pace: Some(1000.0), ..point }
    };
    vec![point(1), point(1000)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_points_apart() {
        for form in [Form::Short, Form::Full] {
            let names = ["W1", "W2", "W3", "W4", "W5", "W9", "W10", "alters", "beside", "long"];
            let all = names.map(|name| points(name, form)).concat();
            let all = [all, points("sweeps", form), points("parts", form)].concat();
            let names: std::collections::BTreeSet<String> = all.iter().map(Point::name).collect();
            assert_eq!(names.len(), all.len());
        }
        assert_eq!(points("W1", Form::Short)[1].name(), "W1 ints prepared 1 x 30");
        assert_eq!(points("W5", Form::Short)[0].name(), "W5 httplogs body 10KB x 30");
        assert_eq!(points("W9", Form::Short)[1].name(), "W9 ints text 1 x 20 1000 tables");
        let names = |workload| points(workload, Form::Short).iter().map(Point::name).collect();
        let (beside, long): (Vec<String>, Vec<String>) = (names("beside"), names("long"));
        assert_eq!(beside[1], "W2 lineitem text 100 x 20 + 2 queries");
        assert_eq!(long[0], "W2 lineitem text 100 x 20 long");
        assert_eq!(points("W10", Form::Short)[0].name(), "W10 httplogs body 10MB x 10");
        assert_eq!(
            points("parts", Form::Short)[5].name(),
            "parts sbtest1 text 10000 x 16 in 1 whole"
        );
        assert_eq!(points("alters", Form::Short)[2].name(), "W1 ints prepared 1 x 100 + alters");
        assert_eq!(points("sweeps", Form::Short)[1].name(), "sweep columns 100");
    }

    #[test]
    fn many_tables_have_names_of_their_own() {
        let tables = points("W9", Form::Short)[1].tables();
        assert_eq!((tables.len(), tables[7].name.as_str()), (1000, "t0007"));
    }

    #[test]
    fn every_sweep_has_a_table_of_its_columns() {
        for point in points("sweeps", Form::Full) {
            let (table, rows) = (&point.tables()[0], point.source.rows(1));
            assert_eq!(table.columns.len(), rows[0].len(), "{}", point.name());
        }
    }
}
