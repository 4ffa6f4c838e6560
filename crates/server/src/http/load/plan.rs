//! The plan of a load: which fields its body has, what is computed of them, and which columns of
//! the table they go to.

use std::sync::Arc;

use freshet_base::clock::until;
use freshet_base::{ColumnId, Error, Result, bail, err};
use freshet_ingest::LoadTarget;
use freshet_ingest::decode::columnar::BodySchema;
use freshet_ingest::decode::csv::field_count;
use freshet_ingest::decode::json::JsonPath;
use freshet_ingest::decode::{IdRules, InsertPlan, PartialColumns, SourcePlan};
use freshet_meta::Account;
use freshet_query::change::ROW;
use freshet_query::engine::PlanRequest;
use freshet_query::evaluation::{Losses, OnLoss};
use freshet_query::mapping::{Columns, Negation};
use freshet_query::parser::{COLUMNS_MAX, HttpStream, LoadColumn, load_columns, load_condition};
use freshet_query::syntax::{Scalar, Select};
use freshet_schema::value::bad::must_use;
use freshet_schema::{
    Aggregate, Column, ColumnType, DefaultValue, KeyModel, OnBad, Rules, SEQUENCE_COLUMN,
    TableSchema, Zone,
};

use super::body::Body;
use super::context::LoadContext;
use super::decode::Bounds;
use super::decoder::Source;
use super::headers::{Hidden, LoadFormat, LoadHeaders, MergeType, SIGN, VERSION_COLUMN};
use super::mapped::{Limits, Mapped};
use super::piece::Deletes;
use super::request::Request;
use crate::http::Http;
use crate::insert::{check_sequence, sign_among};

/// How much of a body is read to count the fields of its first line.
const FIRST_LINE_BYTES_MAX: usize = 1 << 20;

/// The names of the columns that users see.
fn shown(schema: &TableSchema) -> Vec<String> {
    schema.shown_names().map(str::to_owned).collect()
}

/// The names of those of them that take values.
fn given(schema: &TableSchema) -> Vec<String> {
    let shown = schema.shown().iter().filter(|column| column.generated.is_none());
    shown.map(|column| column.name.clone()).collect()
}

/// The hidden sequence column as a computed one: it has the value of a field.
///
/// # Errors
/// For a field that there is none, or rows that have the column already.
fn sequence_of(
    field: &str,
    (names, computed): (&[String], &[(String, Scalar)]),
) -> Result<(String, Scalar)> {
    let mut given = names.iter().chain(computed.iter().map(|(name, _)| name));
    if given.clone().any(|name| name.eq_ignore_ascii_case(SEQUENCE_COLUMN)) {
        bail!(ColumnTwice, "Column '{SEQUENCE_COLUMN}' specified twice");
    }
    if !given.any(|name| name.eq_ignore_ascii_case(field)) {
        bail!(
            WrongArguments,
            "function_column.sequence_col is '{field}', which is none of the columns of the load; \
             name it in header 'columns'"
        );
    }
    let same = computed.iter().find(|(name, _)| name.eq_ignore_ascii_case(field));
    if let Some((_, value)) = same {
        return Ok((SEQUENCE_COLUMN.to_owned(), value.clone()));
    }
    computing(&format!("{SEQUENCE_COLUMN} = `{}`", field.replace('`', "``")))
}

/// A computed column of a text as `columns` has it.
fn computing(text: &str) -> Result<(String, Scalar)> {
    match load_columns(text)?.pop() {
        Some(LoadColumn::Computed(name, value)) => Ok((name, *value)),
        _ => bail!(Internal, "'{text}' computes no column"),
    }
}

/// The sums with a default that a load does not name, as computed columns: it has added their
/// defaults, which are taken back with it.
///
/// # Errors
/// `WrongArguments` for a default that is another one each time.
fn unnamed_sums(
    schema: &TableSchema,
    (names, computed): (&[String], &[(String, Scalar)]),
) -> Result<Vec<(String, Scalar)>> {
    let is_named = |column: &Column| {
        let mut given = names.iter().chain(computed.iter().map(|(name, _)| name));
        given.any(|name| name.eq_ignore_ascii_case(&column.name))
    };
    let sums = schema.shown().iter().filter(|column| column.aggregate == Some(Aggregate::Sum));
    let unnamed = sums.filter(|column| !is_named(column));
    let default = |column: &Column| match &column.default {
        None => None,
        Some(DefaultValue::Literal(text)) => {
            let (name, text) = (column.name.replace('`', "``"), text.replace('\'', "''"));
            Some(computing(&format!("`{name}` = '{text}'")))
        }
        Some(_) => Some(Err(err!(
            WrongArguments,
            "negative: the default of column '{}' is an expression, which may have added something \
             else; name the column in header 'columns'",
            column.name
        ))),
    };
    unnamed.filter_map(default).collect()
}

/// Plans loads into one table.
pub(super) struct Planner<'a> {
    pub http: &'a Http,
    pub account: &'a Account,
    pub target: &'a LoadTarget,
    pub request: &'a Request,
    /// The columns of a body that says what it has.
    pub columns: Option<&'a BodySchema>,
}

/// A load that computes, before it is planned.
struct Asked {
    /// The names of the body's fields.
    names: Vec<String>,
    fields: Arc<TableSchema>,
    select: Select,
    /// The columns of the table that get the values.
    targets: Vec<String>,
}

impl Planner<'_> {
    /// # Errors
    /// Unknown columns, syntax, expressions; those of reading the start of the body.
    pub(super) async fn source(&self, body: &mut Body<'_>, bounds: Bounds) -> Result<Source> {
        let headers = &self.request.headers;
        let on_bad = if headers.strict { OnBad::Refuse } else { OnBad::Null };
        let rules = Rules { on_bad, zone: headers.zone.unwrap_or(Zone::UTC), ..Rules::default() };
        if let Some(stream) = &self.request.stream {
            if headers.flexible {
                bail!(WrongArguments, "Don't support flexible partial update in an Http Stream");
            }
            let names = self.fields_of_body(stream, body, bounds).await?;
            return self.computing(self.of_stream(stream, names)?, &rules, bounds).await;
        }
        let text = headers.columns.as_deref();
        let marks = self.deletes() == Deletes::Marked;
        let has_condition = headers.condition.is_some() || headers.negative;
        let is_computed = has_condition || marks || self.sequence()?.is_some();
        if is_computed || text.is_some_and(|text| text.contains('=')) {
            return self.computing(self.of_columns(text)?, &rules, bounds).await;
        }
        let names = text.map(plain_names).transpose()?;
        let names = match (names, self.columns) {
            (Some(names), Some(body)) => {
                names.iter().try_for_each(|name| body.position(name).map(drop))?;
                Some(names)
            }
            (None, Some(body)) => Some(self.names_in(body)?),
            (names, None) => names,
        };
        let names = match headers.flexible {
            true => Some(self.all_names()),
            // Rows that are marked are computed, and all of others delete or none.
            false => self.with_hidden(names, false),
        };
        self.check_sequence(names.as_deref())?;
        let (schema, now) = (self.target.schema(), self.http.clock().wall_micros());
        let mut plan = SourcePlan::new(schema, names.as_deref(), now, &rules)?;
        plan.plan = plan.plan.generating(self.target.counter(), IdRules::default());
        plan.plan = self.divide(plan.plan, rules.zone)?;
        let deletes = self.deletes();
        if deletes == Deletes::All {
            plan.plan = plan.plan.of_keys();
        }
        let partial;
        (plan.plan, partial) = self.partial(plan.plan)?;
        if !headers.flexible {
            check_sketches(schema, &plan.names)?;
        }
        let format = headers.format.clone();
        Ok(Source { format, plan: Arc::new(plan), rules, mapped: None, deletes, partial })
    }

    /// The field that fills the hidden sequence column.
    ///
    /// # Errors
    /// In the words of Doris, for a table that has no sequence column.
    fn sequence(&self) -> Result<Option<&str>> {
        let Some(field) = self.request.headers.sequence.as_deref() else { return Ok(None) };
        let (schema, name) = (self.target.schema(), &self.target.table().name);
        if schema.sequence.is_none() {
            bail!(WrongArguments, "There is no sequence column in the table {name}");
        }
        // One of the table's own columns is filled as others are.
        Ok(schema.hidden_sequence().map(|_| field))
    }

    /// The fields of a body, behind which there are those that `hidden_columns` names, in its
    /// order, as far as the table has them.
    fn with_hidden(&self, names: Option<Vec<String>>, with_sign: bool) -> Option<Vec<String>> {
        let (table, schema) = (self.target.table(), self.target.schema());
        let name = |hidden: &Hidden| match hidden {
            Hidden::Sign => with_sign.then_some(SIGN),
            Hidden::Sequence => schema.hidden_sequence().map(|_| SEQUENCE_COLUMN),
            // A body that says what it has need not have what is ignored.
            Hidden::Version => {
                let has = table.key_model == KeyModel::Unique && self.columns.is_none();
                has.then_some(VERSION_COLUMN)
            }
        };
        let hidden = self.request.headers.hidden.iter().filter_map(name).map(str::to_owned);
        let hidden = hidden.collect::<Vec<_>>();
        if hidden.is_empty() {
            return names;
        }
        let mut names = names.unwrap_or_else(|| shown(schema));
        names.extend(hidden);
        Some(names)
    }

    /// The columns of the table, and those that are hidden beside a sequence.
    fn all_names(&self) -> Vec<String> {
        let schema = self.target.schema();
        let mut names = shown(schema);
        names.extend(schema.hidden_sequence().map(|_| SEQUENCE_COLUMN.to_owned()));
        names.extend(schema.delete_sign().map(|_| SIGN.to_owned()));
        names
    }

    /// Rows of a partial update may keep the sequence that they have.
    fn check_sequence(&self, columns: Option<&[String]>) -> Result<()> {
        match self.request.headers.partial {
            None => check_sequence(self.target.table(), columns),
            Some(_) => Ok(()),
        }
    }

    /// The plan of a partial update, if it is one, with the columns that it has.
    fn partial(&self, plan: InsertPlan) -> Result<(InsertPlan, Option<Arc<PartialColumns>>)> {
        let headers = &self.request.headers;
        let (plan, columns) = match (headers.partial, headers.flexible) {
            (None, _) => return Ok((plan, None)),
            (Some(_), true) => plan.of_flexible_rows(),
            (Some(_), false) => plan.of_partial_rows()?,
        };
        Ok((plan, Some(Arc::new(columns))))
    }

    /// `columns` with expressions, and `where`.
    fn of_columns(&self, text: Option<&str>) -> Result<Asked> {
        let (schema, headers) = (self.target.schema(), &self.request.headers);
        let (mut names, mut computed) = (Vec::new(), Vec::new());
        let items = text.map(load_columns).transpose()?;
        for item in items.into_iter().flatten() {
            match item {
                LoadColumn::Field(name) => names.push(name),
                LoadColumn::Computed(name, value) => computed.push((name, *value)),
            }
        }
        // Without names of fields, the body has the columns of the table.
        if names.is_empty() {
            names = match self.columns {
                Some(body) => self.names_in(body)?,
                None => shown(schema),
            };
            names = self.with_hidden(Some(names), true).unwrap_or_default();
        }
        if let Some(field) = self.sequence()? {
            computed.push(sequence_of(field, (&names, &computed))?);
        }
        if headers.negative {
            let unnamed = unnamed_sums(schema, (&names, &computed))?;
            computed.extend(unnamed);
        }
        let is_computed = |name: &str| {
            computed.iter().filter(|(column, _)| column.eq_ignore_ascii_case(name)).count()
        };
        for (name, _) in &computed {
            if schema.position(name).is_none() && !name.eq_ignore_ascii_case(SIGN) {
                bail!(UnknownColumn, "Unknown column '{name}' in 'columns'");
            }
            if is_computed(name) > 1 {
                bail!(ColumnTwice, "Column '{name}' specified twice");
            }
        }
        let given = |column: &&Column| {
            // Values of generated columns, as a dump has them, are read and ignored.
            let is_field = column.generated.is_none()
                && names.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
            is_field || is_computed(&column.name) > 0
        };
        // Rows that delete are marked in another way.
        let own = schema.columns.iter().filter(|column| column.name != SIGN);
        let targets = own.filter(given).map(|column| column.name.clone()).collect::<Vec<_>>();
        self.check_sequence(Some(&targets))?;
        check_sketches(schema, names.iter().filter(|name| is_computed(name) == 0))?;
        let fields = self.fields(&names, |name| is_computed(name) == 0)?;
        let condition = headers.condition.as_deref().map(load_condition).transpose()?;
        let deletes = match &headers.merge {
            MergeType::Merge(condition) => Some(load_condition(condition)?),
            MergeType::Append if headers.has_sign => {
                Some(load_condition(&format!("`{SIGN}` = 1"))?)
            }
            MergeType::Append | MergeType::Delete => None,
        };
        let columns = Columns {
            table: &self.target.table().name,
            fields: &names,
            computed: &computed,
            targets: &targets,
            negation: &|name| negation(schema, name).filter(|_| headers.negative),
            condition: condition.as_ref(),
            deletes: deletes.as_ref(),
        };
        Ok(Asked { select: columns.select()?, names, fields, targets })
    }

    /// The columns of the table that a body has.
    fn names_in(&self, body: &BodySchema) -> Result<Vec<String>> {
        let schema = self.target.schema();
        let mut names = Vec::new();
        for column in schema.shown() {
            if body.find(&column.name)?.is_some() {
                names.push(column.name.clone());
            }
        }
        if names.is_empty() {
            let has = body.names().take(20).collect::<Vec<_>>().join(", ");
            bail!(
                WrongArguments,
                "the body has no column of table '{}'; its columns are: {has}; header 'columns' \
                 can compute columns of others",
                self.target.table().name
            );
        }
        Ok(names)
    }

    /// The SELECT of an Http Stream.
    fn of_stream(&self, stream: &HttpStream, names: Vec<String>) -> Result<Asked> {
        let schema = self.target.schema();
        let targets = match &stream.columns {
            Some(columns) => columns.clone(),
            None => given(schema),
        };
        self.check_sequence(Some(&targets))?;
        // Members of JSON objects have the types of the columns they are named like.
        let is_json = matches!(self.request.headers.format, LoadFormat::Json(_));
        let fields = self.fields(&names, |_| is_json)?;
        Ok(Asked { select: stream.select(&names)?, names, fields, targets })
    }

    /// The names of the fields of an Http Stream: `c1` and so on for as many as the first line of a
    /// CSV body has; the names in the statement for JSON, where `*` stands for the target columns.
    async fn fields_of_body(
        &self,
        stream: &HttpStream,
        body: &mut Body<'_>,
        bounds: Bounds,
    ) -> Result<Vec<String>> {
        let schema = self.target.schema();
        let width = stream.columns.as_ref().map_or_else(|| given(schema).len(), Vec::len);
        match &self.request.headers.format {
            LoadFormat::Csv(format) => {
                let count = |start: &[u8], is_all| field_count(start, format, is_all);
                let counted =
                    body.peek((bounds.limit, bounds.deadline), FIRST_LINE_BYTES_MAX, count).await?;
                let count = counted.unwrap_or(width);
                Ok((1..=count).map(|number| format!("c{number}")).collect())
            }
            LoadFormat::Json(json) if !json.paths.is_empty() => {
                // A value is called by the last key of its path.
                let name = |(at, path): (usize, &JsonPath)| {
                    path.last_key().map_or_else(|| format!("c{}", at + 1), str::to_owned)
                };
                Ok(json.paths.iter().enumerate().map(name).collect())
            }
            LoadFormat::Json(_) | LoadFormat::Columnar(_) if stream.takes_all() => {
                Ok(stream.columns.clone().unwrap_or_else(|| given(schema)))
            }
            LoadFormat::Json(_) | LoadFormat::Columnar(_) => Ok(stream.names()),
        }
    }

    /// The fields of the body: those for which `is_typed` holds have the type of the column of
    /// their name, the others the type that the body says, or are texts.
    fn fields(
        &self,
        names: &[String],
        is_typed: impl Fn(&str) -> bool,
    ) -> Result<Arc<TableSchema>> {
        let schema = self.target.schema();
        if names.len() > COLUMNS_MAX {
            bail!(
                WrongArguments,
                "the body has {} fields or more, a load has at most {COLUMNS_MAX}",
                names.len()
            );
        }
        let field = |(at, name): (usize, &String)| {
            let id = ColumnId(u32::try_from(at).unwrap_or(u32::MAX));
            let lower = name.to_lowercase();
            let column = schema.position(name).filter(|_| is_typed(name));
            let column = column.map(|at| &schema.columns[at]);
            let Some(column) = column.filter(|column| column.ty.sketch().is_none()) else {
                let ty = match self.columns {
                    Some(body) => body.column_type(body.position(name)?),
                    None => ColumnType::Text,
                };
                return Ok(Column::new(id, lower, ty));
            };
            // Expressions see instants as local times, and NULL stays NULL until it is stored.
            let ty = match column.ty {
                ColumnType::Timestamp { fsp } => ColumnType::DateTime { fsp },
                other => other,
            };
            let plain = Column { auto_increment: None, generated: None, ..column.clone() };
            Ok(Column { id, name: lower, ty, nullable: true, ..plain })
        };
        let fields = names.iter().enumerate().map(field).collect::<Result<_>>()?;
        Ok(Arc::new(TableSchema::new(schema.version, fields, Vec::new())))
    }

    /// With the partitions that take rows.
    fn divide(&self, plan: InsertPlan, zone: Zone) -> Result<InsertPlan> {
        let mut plan = plan.dividing(self.target.table(), false);
        let headers = &self.request.headers;
        if let Some(names) = headers.temporary_partitions.as_ref().or(headers.partitions.as_ref()) {
            plan.only(self.target.table(), &partition_names(names))?;
        }
        self.completed(plan, zone)
    }

    /// With the generated columns and the constraints of the table. Of rows that only name what is
    /// deleted, the key alone has to be known.
    fn completed(&self, plan: InsertPlan, zone: Zone) -> Result<InsertPlan> {
        let schema = self.target.schema();
        let is_of_key = || schema.sort_key.iter().any(|&at| schema.columns[at].generated.is_some());
        let is_deleting = self.deletes() == Deletes::All;
        if is_deleting && !is_of_key() {
            return Ok(plan);
        }
        let losses = losses(&self.request.headers);
        let mut completion = self.http.sessions.completion(self.target, losses)?;
        let defaults = self.http.sessions.defaults(schema, losses, zone)?;
        if is_deleting {
            completion.checks = None;
        }
        Ok(plan.computing(defaults).completing(completion, self.target.table()))
    }

    fn deletes(&self) -> Deletes {
        match &self.request.headers.merge {
            MergeType::Append if self.request.headers.has_sign => Deletes::Marked,
            MergeType::Append => Deletes::None,
            MergeType::Delete => Deletes::All,
            MergeType::Merge(_) => Deletes::Marked,
        }
    }

    async fn computing(&self, asked: Asked, rules: &Rules, bounds: Bounds) -> Result<Source> {
        let Asked { names, fields, select, mut targets } = asked;
        let (http, headers) = (self.http, &self.request.headers);
        let now = http.clock().wall_micros();
        let plan = SourcePlan::new(&fields, Some(&names), now, rules)?;
        let id = ColumnId(u32::try_from(fields.columns.len()).unwrap_or(u32::MAX));
        let row = Column::new(id, ROW, ColumnType::BigInt { unsigned: false });
        let seen = [row].into_iter().chain(fields.columns.iter().cloned()).collect();
        let seen = Arc::new(TableSchema::new(fields.version, seen, Vec::new()));
        let database = &self.request.database;
        let origin = LoadContext::new(http, self.account, database, rules.zone, Arc::clone(&seen));
        let losses = losses(headers);
        let (texts, parameters) = (Vec::new(), Vec::new());
        let asked = PlanRequest { query: select, texts, parameters, origin, losses };
        let planned = until(&**http.clock(), bounds.deadline, http.query.mapping(asked)).await;
        let mapping = planned.unwrap_or_else(|| Err(not_planned()))?;
        let deletes = self.deletes();
        let marks = deletes == Deletes::Marked;
        if mapping.columns.len() != targets.len() + 1 + usize::from(marks) {
            bail!(ColumnCount, "Column count doesn't match value count at row 1");
        }
        // The SELECT of an Http Stream says it as that of an INSERT does.
        let sign = sign_among(self.target.table(), Some(&targets));
        let deletes = sign.map_or(deletes, |_| Deletes::Marked);
        if let Some(at) = sign {
            targets.remove(at);
        }
        let into = InsertPlan::partial(self.target.schema(), Some(&targets), now, rules)?;
        let into = into.generating(self.target.counter(), IdRules::default());
        let mut into = self.divide(into, rules.zone)?;
        into.check_generated()?;
        if deletes == Deletes::All {
            into = into.of_keys();
        }
        let partial;
        (into, partial) = self.partial(into)?;
        if let Some(at) = sign {
            into = into.with_sign(at);
        }
        let some_delete = partial.clone().filter(|_| deletes == Deletes::Marked);
        let query = Arc::clone(&http.query);
        let limits = Limits {
            clock: Arc::clone(http.clock()),
            deadline: bounds.deadline,
            takes_rejects: headers.max_filter_ratio > 0.0,
        };
        let mapped = Mapped {
            query,
            mapping,
            fields,
            seen,
            plan: into,
            rules: *rules,
            marks,
            partial: some_delete,
            limits,
        };
        Ok(Source {
            format: headers.format.clone(),
            plan: Arc::new(plan),
            rules: *rules,
            mapped: Some(Arc::new(mapped)),
            deletes,
            partial,
        })
    }
}

fn not_planned() -> Error {
    err!(
        QueryTimeout,
        "the load took longer than its timeout allows: its expressions are not planned yet"
    )
}

/// How values of a column are negated, if it keeps sums.
fn negation(schema: &TableSchema, name: &str) -> Option<Negation> {
    let column = schema.position(name).map(|at| &schema.columns[at]);
    let sum = column.filter(|column| column.aggregate == Some(Aggregate::Sum))?;
    Some(match sum.ty {
        ColumnType::Float | ColumnType::Double => Negation::Float,
        ColumnType::Decimal { scale, .. } => Negation::Exact { scale },
        _ => Negation::Exact { scale: 0 },
    })
}

/// Columns of sketches are computed.
fn check_sketches<'a>(
    schema: &TableSchema,
    fields: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    let columns = fields.into_iter().filter_map(|name| schema.position(name));
    match columns.map(|at| &schema.columns[at]).find(|column| column.ty.sketch().is_some()) {
        Some(column) => bail!(WrongArguments, "{}", must_use(column)),
        None => Ok(()),
    }
}

/// What expressions do where they lose something: without strict mode a value that does not fit is
/// converted as far as it goes.
fn losses(headers: &LoadHeaders) -> Losses {
    match headers.strict {
        true => Losses { values: OnLoss::Refuse, divisions: OnLoss::Ignore },
        false => Losses::default(),
    }
}

/// A list of partition names.
pub(super) fn partition_names(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect()
}

/// A list of column names, each optionally in backquotes; these may be any text.
fn plain_names(text: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for item in text.split(',').map(str::trim) {
        let name = match item.strip_prefix('`') {
            Some(rest) => rest.strip_suffix('`').unwrap_or(""),
            None => item,
        };
        if name.is_empty() || name.contains('`') {
            bail!(WrongArguments, "header 'columns': '{item}' is not the name of a column");
        }
        if names.len() == COLUMNS_MAX {
            bail!(WrongArguments, "header 'columns' names more than {COLUMNS_MAX} columns");
        }
        names.push(name.to_owned());
    }
    Ok(names)
}
