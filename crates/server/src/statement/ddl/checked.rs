//! CHECK constraints and generated columns of new tables, and of tables that have rows.

use std::sync::Arc;

use freshet_base::{Result, TableId, bail, err};
use freshet_meta::{ColumnSpec, DefaultSpec, KeyChange, Planned, SchemaChange, TableSpec};
use freshet_query::evaluation::Losses;
use freshet_query::parser::{AlterAction, Clauses, Statement, TableName, parse};
use freshet_schema::value::{LocalDateTime, temporal};
use freshet_schema::{Check, ColumnType, DefaultValue, Table, TableForm, TableSchema, ZeroDates};

use super::super::query;
use super::unverified::Unverified;
use crate::reply::bounded;
use crate::session::Session;

/// Checks that the constraints and generated columns of a new table can be evaluated, and that its
/// defaults are values of the session's mode.
pub fn of_table(session: &Session, spec: &TableSpec) -> Result<()> {
    for column in &spec.columns {
        check_zero_date(session, &column.name, column.ty, &column.default)?;
    }
    let is_computed = |column: &ColumnSpec| is_expression(&column.default);
    let is_generated =
        spec.columns.iter().any(|column| column.generated.is_some() || is_computed(column));
    let behind = spec.columns.iter().any(|column| !column.checks.is_empty());
    if is_generated || behind || !spec.checks.is_empty() {
        compile(session, &Planned::check(spec)?.schema)?;
    }
    Ok(())
}

pub(super) fn compile(session: &Session, schema: &TableSchema) -> Result<()> {
    session.shared.compile_checks(schema)?;
    session.shared.defaults(schema, Losses::default(), session.settings.zone())?;
    session.shared.compile_generated(schema, Losses::default()).map(drop)
}

/// The same of what an ALTER TABLE brings.
pub fn of_changes(session: &Session, id: TableId, changes: &[SchemaChange]) -> Result<()> {
    for change in changes {
        match change {
            SchemaChange::AddColumn { column, .. }
            | SchemaChange::AddKeyColumn { column, .. }
            | SchemaChange::ModifyColumn { column, .. } => {
                check_zero_date(session, &column.name, column.ty, &column.default)?;
            }
            SchemaChange::SetDefault { name, default } => {
                let table = Arc::clone(session.shared.engine.catalog().require(id)?);
                let schema = table.schema();
                if let Some(at) = schema.position(name) {
                    check_zero_date(session, name, schema.columns[at].ty, default)?;
                }
            }
            _ => {}
        }
    }
    let is_computed = |change: &SchemaChange| match change {
        SchemaChange::AddColumn { column, .. } | SchemaChange::ModifyColumn { column, .. } => {
            column.generated.is_some() || is_expression(&column.default)
        }
        SchemaChange::SetDefault { default, .. } => is_expression(default),
        other => is_of_checks(other),
    };
    if !changes.iter().any(is_computed) {
        return Ok(());
    }
    compile(session, &*session.shared.engine.catalog().altered(id, changes)?)
}

/// Rows that are given no value have the default, whatever the mode is then.
///
/// # Errors
/// 1067 for the zero date with `NO_ZERO_DATE`.
fn check_zero_date(
    session: &Session,
    name: &str,
    ty: ColumnType,
    default: &DefaultSpec,
) -> Result<()> {
    let is_zero = |text: &str| {
        let moment = temporal::parse(text.as_bytes());
        text == "0" || moment.is_some_and(LocalDateTime::is_zero)
    };
    let zero_dates = session.settings.rules(TableForm::MySql).zero_dates;
    match default {
        DefaultSpec::Value(DefaultValue::Literal(text))
            if zero_dates == ZeroDates::Bad && ty.is_temporal() && is_zero(text) =>
        {
            bail!(
                InvalidDefault,
                "Invalid default value for '{name}': sql_mode has NO_ZERO_DATE, with which \
                 '{text}' is no {ty}"
            )
        }
        _ => Ok(()),
    }
}

fn is_expression(default: &DefaultSpec) -> bool {
    let (DefaultSpec::Value(value) | DefaultSpec::Computed { default: value, .. }) = default else {
        return false;
    };
    matches!(value, DefaultValue::Expression(_))
}

/// The clauses with what their DROP CONSTRAINT drop: keys, foreign keys, or CHECKs. These go before
/// all others, which may add a constraint of the same name, or drop the column it is of. `None`
/// where there is none.
///
/// # Errors
/// 3940 for a name that the table has not, 3939 for one that several kinds have.
pub fn constraints(table: &Table, clauses: &Clauses) -> Result<Option<Clauses>> {
    if clauses.constraints.is_empty() {
        return Ok(None);
    }
    let mut found = clauses.clone();
    let (mut keys, mut checks) = (Vec::new(), Vec::new());
    for name in found.constraints.drain(..) {
        let is_it = |known: &str| known.eq_ignore_ascii_case(&name);
        let mut unique = table.declared_keys.iter().filter(|key| key.kind.is_unique());
        let is_key = unique.any(|key| is_it(&key.name));
        let is_foreign = table.foreign_keys.iter().any(|key| is_it(&key.name));
        let is_check = table.schema().checks.iter().any(|check| is_it(&check.name));
        match (is_key, is_foreign, is_check) {
            (true, false, false) => keys.push(KeyChange::Drop { name }),
            (false, true, false) => keys.push(KeyChange::DropForeign { name }),
            (false, false, true) => checks.push(SchemaChange::DropCheck { name }),
            (false, false, false) => {
                bail!(NoSuchConstraint, "Constraint '{name}' does not exist.")
            }
            _ => bail!(
                SeveralConstraints,
                "Table has multiple constraints with the name '{name}'. Please use constraint \
                 specific 'DROP' clause."
            ),
        }
    }
    found.keys.splice(0..0, keys);
    found.columns.splice(0..0, checks);
    Ok(Some(found))
}

/// Whether the answer to an ALTER TABLE tells of rows that are there.
pub fn looks_at_rows(action: &AlterAction) -> bool {
    match action {
        AlterAction::Clauses(Clauses { columns, keys, constraints, division, .. }) => {
            !keys.is_empty()
                || !constraints.is_empty()
                || division.is_some()
                || columns.iter().any(|it| is_of_checks(it) || adds_generated(it))
        }
        AlterAction::Index { .. } | AlterAction::EnableKeys => true,
        _ => false,
    }
}

fn adds_generated(change: &SchemaChange) -> bool {
    matches!(change, SchemaChange::AddColumn { column, .. } if column.generated.is_some())
}

/// Whether a clause adds a constraint or enforces one.
pub fn is_of_checks(change: &SchemaChange) -> bool {
    matches!(change, SchemaChange::AddCheck(_) | SchemaChange::EnforceCheck { .. })
}

/// The constraints of a table.
///
/// # Errors
/// 1146 when it was dropped.
pub fn known(session: &Session, id: TableId) -> Result<Vec<Check>> {
    let catalog = session.shared.engine.catalog();
    let table = catalog.table_by_id(id).ok_or_else(|| err!(NoSuchTable, "it was dropped"))?;
    Ok(table.schema().checks.clone())
}

/// Why a statement of `looks_at_rows` needs to see all rows.
pub(super) const ALL_ROWS: &str = "keys and constraints are looked for in all of them";

/// Looks at the rows that are there by constraints that were not enforced `before`. New rows have
/// to satisfy them already. Where a row does not, all is as before.
///
/// # Errors
/// 3819, and those of reading the table.
pub async fn verify(
    session: &mut Session,
    table: &TableName,
    id: TableId,
    before: &[Check],
) -> Result<()> {
    for check in known(session, id)? {
        if !check.is_enforced || before.contains(&check) {
            continue;
        }
        let was_there = before.iter().any(|old| old.name == check.name);
        let name = check.name.clone();
        let undo = match was_there {
            true => SchemaChange::EnforceCheck { name, is_enforced: false },
            false => SchemaChange::DropCheck { name },
        };
        let unverified = Unverified::new(session, id, undo);
        match satisfied(session, table, (id, &check)).await {
            Ok(()) => unverified.keep(),
            Err(error) => {
                unverified.take_back(session).await?;
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Looks for a row that violates a constraint, as it would be evaluated for a new row.
async fn satisfied(
    session: &mut Session,
    table: &TableName,
    (id, check): (TableId, &Check),
) -> Result<()> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let database = session.database_of(table.database.as_deref())?;
    let sql = format!(
        "SELECT 1 FROM {}.{} WHERE ({}) IS FALSE LIMIT 1",
        quoted(database),
        quoted(&table.table),
        check.text
    );
    let Some(Statement::Query(select)) =
        parse(&sql, Default::default())?.pop().map(|parsed| parsed.statement)
    else {
        bail!(Internal, "the text of a constraint is no condition: {}", check.text);
    };
    let mut rows = query::check(session, &select, id).await?;
    while let Some(batch) = bounded(session, rows.next()).await? {
        if batch.num_rows() > 0 {
            bail!(CheckViolated, "Check constraint '{}' is violated.", check.name);
        }
    }
    Ok(())
}
