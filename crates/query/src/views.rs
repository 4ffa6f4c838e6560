//! What a view makes of the plan of its query.

use std::collections::BTreeMap;

use datafusion::common::Column;
use datafusion::common::metadata::FieldMetadata;
use datafusion::logical_expr::{Expr, LogicalPlan};
use freshet_base::{Error, ErrorCode, Result, bail, err};
use freshet_meta::{TextMode, View};

use crate::origin::ColumnOrigin;
use crate::result::ResultColumn;
use crate::session::SqlMode;

/// How the text of a view is read.
pub fn mode_of(view: &View) -> SqlMode {
    let TextMode { pipes_as_concat, ansi_quotes, no_backslash_escapes, loose_group_by } =
        view.text_mode;
    SqlMode {
        pipes_as_concat,
        ansi_quotes,
        no_backslash_escapes,
        loose_group_by,
        ..SqlMode::default()
    }
}

/// The error of planning a view. What is wrong inside it is not told, since who reads a view may
/// not be allowed to know what it reads.
pub fn hidden(error: Error, database: &str, view: &View) -> Error {
    match error.code() {
        ErrorCode::NoSuchTable
        | ErrorCode::UnknownColumn
        | ErrorCode::UnknownDatabase
        | ErrorCode::UnknownFunction
        | ErrorCode::TableAccessDenied
        | ErrorCode::ColumnAccessDenied
        | ErrorCode::AccessDeniedDatabase => invalid(database, &view.name),
        _ => error,
    }
}

/// 1356 for a view of this database.
pub fn invalid(database: &str, view: &str) -> Error {
    err!(
        ViewInvalid,
        "View '{database}.{view}' references invalid table(s) or column(s) or function(s) or \
         definer/invoker of view lack rights to use them"
    )
}

/// The columns of a view, of the plan of its query, whose result has these columns.
///
/// # Errors
/// 1054 if the query no longer has them.
pub fn columns(view: &View, plan: &LogicalPlan, columns: &[ResultColumn]) -> Result<Vec<Expr>> {
    let by_name = !view.sources.is_empty();
    if !by_name && view.columns.len() != columns.len() {
        bail!(UnknownColumn, "view '{}' has other columns than its query", view.name);
    }
    let expr = |(at, column): (usize, &freshet_schema::Column)| {
        let place = match view.sources.get(at) {
            None => Some(at),
            Some(source) => columns.iter().position(|c| c.name.eq_ignore_ascii_case(source)),
        };
        let place =
            place.ok_or_else(|| err!(UnknownColumn, "Unknown column '{}' in view", column.name))?;
        let (qualifier, field) = plan.schema().qualified_field(place);
        let metadata = ColumnOrigin::decode(field).map(|origin| {
            let renamed = ColumnOrigin { column: column.name.clone(), ..origin };
            let pair = (ColumnOrigin::KEY.to_owned(), renamed.encode());
            FieldMetadata::from(BTreeMap::from([pair]))
        });
        let of_query = Expr::Column(Column::from((qualifier, field)));
        Ok(of_query.alias_with_metadata(column.name.to_lowercase(), metadata))
    };
    view.columns.iter().enumerate().map(expr).collect()
}
