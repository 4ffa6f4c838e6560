//! CREATE, ALTER and DROP VIEW.

use std::sync::Arc;

use freshet_base::{ColumnId, DbId, ErrorCode, Result, bail};
use freshet_meta::{CheckOption, KnownView, Object, Privilege, TextMode, View};
use freshet_query::engine::PlanRequest;
use freshet_query::evaluation::Losses;
use freshet_query::limits::MARKS;
use freshet_query::parser::{CreateView, Statement, TableName};
use freshet_query::result::ResultColumn;
use freshet_query::through::Through;
use freshet_query::updatable::Fixed;
use freshet_query::{actions, parser};
use freshet_schema::Column;

use super::result_columns::column_spec;
use super::shield;
use crate::reader::Reader;
use crate::reply::{Reply, bounded};
use crate::session::Session;
use crate::through;

/// Runs CREATE VIEW or DROP VIEW.
///
/// # Errors
/// Those of either.
pub async fn change(session: &mut Session, statement: &Statement) -> Result<Reply> {
    match statement {
        Statement::CreateView(create) if create.if_not_exists => {
            create_where_missing(session, create).await
        }
        Statement::CreateView(create) => create_view(session, create).await,
        Statement::DropViews { views, if_exists } => drop(session, views, *if_exists).await,
        _ => bail!(NotSupported, "this is no statement about views"),
    }
}

/// CREATE VIEW IF NOT EXISTS, which another session may run at the same time.
async fn create_where_missing(session: &mut Session, create: &CreateView) -> Result<Reply> {
    if !is_taken(session, create)? {
        match create_view(session, create).await {
            Err(error) if error.code() == ErrorCode::TableExists => {}
            done => return done,
        }
    }
    let note = format!("Table '{}' already exists", create.name.table);
    session.diagnostics.push("Note", ErrorCode::TableExists.errno(), note);
    Ok(Reply::done())
}

/// Whether a view or table has the name of a view that is to be made.
fn is_taken(session: &Session, create: &CreateView) -> Result<bool> {
    let (database, name) =
        (session.database_of(create.name.database.as_deref())?, &create.name.table);
    session.authorize(Privilege::CreateView, Object::Table(database, name))?;
    let catalog = session.shared.engine.catalog();
    Ok(catalog.view(database, name).is_some() || catalog.table(database, name).is_some())
}

/// CREATE VIEW: the query is planned, so that it has only what its creator may read.
///
/// # Errors
/// Missing privileges, taken names, and those of the query.
async fn create_view(session: &mut Session, create: &CreateView) -> Result<Reply> {
    let database = session.database_of(create.name.database.as_deref())?.to_owned();
    let name = create.name.table.clone();
    session.authorize(Privilege::CreateView, Object::Table(&database, &name))?;
    if create.known != KnownView::Refused {
        session.authorize(Privilege::Drop, Object::Table(&database, &name))?;
    }
    let known = match create.known {
        KnownView::Changed => Some(altered(session, &database, &name)?),
        KnownView::Refused | KnownView::Replaced => None,
    };
    // What ALTER VIEW does not say stays.
    let known = known.as_deref();
    let own = session.client.account.clone();
    let definer = create.definer.clone().or_else(|| known.map(|view| view.definer.clone()));
    let definer = definer.unwrap_or_else(|| own.clone());
    let invoker = create.invoker.or(known.map(|view| view.invoker)).unwrap_or(false);
    let algorithm = create.algorithm.or(known.map(|view| view.algorithm)).unwrap_or_default();
    if definer != own {
        session.authorize(Privilege::Super, Object::Server)?;
    }
    if create.query.has_variables() {
        bail!(ViewHasVariable, "View's SELECT contains a variable or parameter");
    }
    if actions::has_side_effects(&create.query) {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'SLEEP and locks in views'"
        );
    }
    let columns = columns_of(session, create, &database).await?;
    let (columns, sources) = named(create, columns)?;
    let engine = Arc::clone(&session.shared.engine);
    let mode = session.settings.mode;
    let view = View {
        db: DbId(0),
        name,
        query: create.text.clone(),
        text_mode: TextMode {
            pipes_as_concat: mode.pipes_as_concat,
            ansi_quotes: mode.ansi_quotes,
            no_backslash_escapes: mode.no_backslash_escapes,
            loose_group_by: mode.loose_group_by,
        },
        database: session.database.as_deref().map(str::to_owned),
        definer,
        invoker,
        algorithm,
        check_option: create.check_option,
        columns,
        sources,
        created_micros: engine.clock().wall_micros(),
    };
    check_option(session, &database, &view)?;
    let known = create.known;
    let created = async move { engine.ddl().create_view(database, view, known).await };
    shield(session, created).await?;
    Ok(Reply::done())
}

/// The view that ALTER VIEW names.
fn altered(session: &Session, database: &str, name: &str) -> Result<Arc<View>> {
    let catalog = session.shared.engine.catalog();
    if let Some(view) = catalog.view(database, name) {
        return Ok(Arc::clone(view));
    }
    catalog.require_table(database, name)?;
    bail!(WrongObject, "'{database}.{name}' is not VIEW")
}

/// Checks that a view with CHECK OPTION is one that rows are written through, and that it is known
/// which.
fn check_option(session: &Session, database: &str, view: &View) -> Result<()> {
    if view.check_option == CheckOption::None {
        return Ok(());
    }
    let catalog = session.shared.engine.catalog();
    let through = match Through::of(&catalog, database, &Arc::new(view.clone()), &[]) {
        Ok(through) => through,
        Err(Fixed::Joined) => bail!(
            NotSupported,
            "WITH CHECK OPTION of view '{}' is not supported: it joins tables",
            view.name
        ),
        Err(_) => {
            bail!(CheckOptionFixed, "CHECK OPTION on non-updatable view '{database}.{}'", view.name)
        }
    };
    let target = through::table(session, &through)?;
    session.shared.view_check(&target, &through).map(|_| ())
}

/// The columns of the query, as its text says.
async fn columns_of(
    session: &mut Session,
    create: &CreateView,
    database: &str,
) -> Result<Vec<ResultColumn>> {
    let parsed = parser::parse(&create.text, session.settings.mode)?.remove(0);
    let origin = Reader::defining(session, database, &create.name.table).await?;
    let query = create.query.clone();
    let (texts, parameters, losses) = (parsed.items, Vec::new(), Losses::default());
    let asked = PlanRequest { query, texts, parameters, origin, losses };
    let plan = bounded(session, session.shared.query.plan(asked)).await?;
    // A transaction opened by planning has a snapshot without the view.
    session.transactions.roll_back();
    Ok(plan.columns)
}

/// The columns of the view, and the names that they have in a query with `*`.
fn named(create: &CreateView, columns: Vec<ResultColumn>) -> Result<(Vec<Column>, Vec<String>)> {
    if !create.columns.is_empty() && create.columns.len() != columns.len() {
        bail!(
            ViewColumns,
            "In definition of view, derived table or common table expression, SELECT list and \
             column names list have different column counts"
        );
    }
    let sources = columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    let names = if create.columns.is_empty() { &sources } else { &create.columns };
    let by_name = create.query.has_wildcard();
    if let Some(name) = names.iter().find(|name| name.contains(MARKS)) {
        bail!(WrongColumnName, "Incorrect column name '{}'", name.escape_debug());
    }
    for list in if by_name { vec![names, &sources] } else { vec![names] } {
        for (at, name) in list.iter().enumerate() {
            if list[..at].iter().any(|before| before.eq_ignore_ascii_case(name)) {
                bail!(DuplicateColumn, "Duplicate column name '{name}'");
            }
        }
    }
    let column = |((id, column), name): ((u32, &ResultColumn), &String)| {
        let spec = column_spec(column);
        let nullable = spec.nullable;
        Column { nullable, ..Column::new(ColumnId(id), name, spec.ty) }
    };
    let made = (1..).zip(&columns).zip(names).map(column).collect();
    Ok((made, if by_name { sources } else { Vec::new() }))
}

/// DROP VIEW.
///
/// # Errors
/// 1051, 1347, missing privileges.
async fn drop(session: &mut Session, views: &[TableName], if_exists: bool) -> Result<Reply> {
    let place = |view: &TableName| {
        let database = session.database_of(view.database.as_deref())?;
        session.authorize(Privilege::Drop, Object::Table(database, &view.table))?;
        Ok((database.to_owned(), view.table.clone()))
    };
    let views = views.iter().map(place).collect::<Result<Vec<_>>>()?;
    let engine = Arc::clone(&session.shared.engine);
    let dropped = async move { engine.ddl().drop_views(views, if_exists).await };
    for (database, view) in shield(session, dropped).await? {
        session.diagnostics.push("Note", 1051, format!("Unknown table '{database}.{view}'"));
    }
    Ok(Reply::done())
}
