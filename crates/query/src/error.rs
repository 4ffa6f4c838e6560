//! Maps DataFusion's errors to MySQL's error codes and messages.

use std::fmt;

use datafusion::common::{Column, DataFusionError, SchemaError};
use freshet_base::{Error, ErrorCode, err};

use crate::group_pool::OF_GROUP;

/// Stands before the name of a column that has the value of the row to be inserted.
pub const NEW: &str = "\u{1}new.";

/// An expression's result for a batch would be larger than a batch may be; it may fit with fewer
/// rows.
#[derive(Debug)]
pub struct BatchTooLarge {
    pub bytes_max: usize,
}

impl fmt::Display for BatchTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expressions make more than {} bytes of a batch of rows", self.bytes_max)
    }
}

impl std::error::Error for BatchTooLarge {}

impl BatchTooLarge {
    /// The error as passed through DataFusion.
    pub fn error(bytes_max: usize) -> DataFusionError {
        DataFusionError::External(Box::new(Self { bytes_max }))
    }

    pub fn is(error: &DataFusionError) -> bool {
        match error.find_root() {
            DataFusionError::External(inner) => inner.is::<Self>(),
            _ => false,
        }
    }
}

/// Wraps one of our errors to pass it through DataFusion.
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Maps an error of planning or execution to the error that the client sees.
pub fn mapped(error: DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            mapped(*inner)
        }
        DataFusionError::Collection(mut errors) if !errors.is_empty() => mapped(errors.remove(0)),
        DataFusionError::Shared(inner) => shared(&inner),
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(error) => *error,
            Err(inner) if inner.is::<BatchTooLarge>() => memory(&inner.to_string()),
            Err(inner) => err!(Unknown, "{inner}"),
        },
        DataFusionError::ArrowError(inner, _) => arrow(&inner),
        DataFusionError::SchemaError(inner, _) => schema(&inner),
        DataFusionError::ResourcesExhausted(message) => memory(&message),
        DataFusionError::SQL(inner, _) => {
            err!(Syntax, "You have an error in your SQL syntax; {inner}")
        }
        DataFusionError::NotImplemented(message) if is_of_subquery(&message) => subquery(),
        DataFusionError::NotImplemented(message) => {
            err!(NotSupported, "This version of Freshet doesn't yet support '{message}'")
        }
        DataFusionError::Plan(message)
        | DataFusionError::Execution(message)
        | DataFusionError::Internal(message)
        | DataFusionError::Configuration(message) => worded(&message),
        other => err!(Unknown, "{other}"),
    }
}

/// Like [`mapped`], for an error that is shared and cannot be moved out of.
fn shared(error: &DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(error) => Error::new(error.code(), error.message()).with_retry(error.retry()),
            None if inner.is::<BatchTooLarge>() => memory(&inner.to_string()),
            None => err!(Unknown, "{inner}"),
        },
        DataFusionError::ArrowError(inner, _) => arrow(inner),
        DataFusionError::SchemaError(inner, _) => schema(inner),
        DataFusionError::ResourcesExhausted(message) => memory(message),
        DataFusionError::Plan(message) | DataFusionError::Execution(message) => worded(message),
        other => err!(Unknown, "{other}"),
    }
}

fn memory(message: &str) -> Error {
    if let Some(at) = message.find(OF_GROUP) {
        return err!(
            QueryMemory,
            "the query needs more memory than {}; select fewer rows or columns, run fewer queries \
             at once, or raise it by ALTER WORKLOAD GROUP",
            &message[at..]
        );
    }
    err!(
        QueryMemory,
        "the query needs more memory than queries may take: {message}; select fewer rows or \
         columns, or raise query_memory"
    )
}

fn arrow(error: &arrow::error::ArrowError) -> Error {
    use arrow::error::ArrowError;
    match error {
        ArrowError::ArithmeticOverflow(message) => {
            err!(ExpressionRange, "DECIMAL value is out of range: {message}")
        }
        ArrowError::DivideByZero => err!(DivisionByZero, "Division by 0"),
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(error) => shared(error),
            None => err!(Unknown, "{inner}"),
        },
        ArrowError::InvalidArgumentError(message) if message.contains("too large to store") => {
            err!(ExpressionRange, "DECIMAL value is out of range: {message}")
        }
        ArrowError::CastError(message) if is_of_nested(message) => err!(
            WrongArguments,
            "An ARRAY, MAP or STRUCT stands where a number, time or truth is wanted; use an element"
        ),
        other => err!(Unknown, "{other}"),
    }
}

/// Whether a message of Arrow is about a nested value that becomes no scalar.
fn is_of_nested(message: &str) -> bool {
    let words = ["Cannot cast LIST", "Casting from Map(", "Casting from Struct("];
    words.iter().any(|words| message.contains(words))
}

fn schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, .. } if is_ours(field) => subquery(),
        SchemaError::FieldNotFound { field, .. } => {
            let name = match (&field.relation, field.name.strip_prefix(NEW)) {
                // Of the row that is inserted, by whatever alias.
                (_, Some(name)) => name.to_owned(),
                (Some(relation), None) => format!("{}.{}", relation.table(), field.name),
                (None, None) => field.name.clone(),
            };
            err!(UnknownColumn, "Unknown column '{name}' in 'field list'")
        }
        SchemaError::AmbiguousReference { field } => {
            err!(AmbiguousColumn, "Column '{}' in field list is ambiguous", field.name)
        }
        SchemaError::DuplicateQualifiedField { qualifier, .. } => {
            err!(NotUniqueTable, "Not unique table/alias: '{}'", qualifier.table())
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            err!(DuplicateColumn, "Duplicate column name '{name}'")
        }
    }
}

/// Whether a column or its relation is one that is added to statements before planning; their names
/// start with `#`. DataFusion reports it as unknown where it cannot turn a subquery into a join.
fn is_ours(field: &Column) -> bool {
    let name = field.relation.as_ref().map_or(&*field.name, |relation| relation.table());
    name.starts_with('#')
}

/// Whether a message of DataFusion is about an unsupported subquery.
fn is_of_subquery(message: &str) -> bool {
    let is = |part: &str| message.contains(part);
    (is("Physical plan does not support logical expression") && (is("Subquery") || is("Exists")))
        || is("Correlated scalar subquery can only be used")
        || is("In/Exist")
        || is("in InSubquery")
}

fn subquery() -> Error {
    err!(
        NotSupported,
        "This version of Freshet doesn't yet support 'subqueries that depend on the row by more \
         than equality, or that stand in ON of an outer join'"
    )
}

/// The text between the first two `quote`s.
fn quoted(message: &str, quote: char) -> &str {
    message.split(quote).nth(1).unwrap_or("")
}

/// The position in ORDER BY or GROUP BY that is out of range.
fn place_out_of_bounds(message: &str) -> Option<&str> {
    let (_, rest) = message
        .split_once("Order by column out of bounds, specified: ")
        .or_else(|| message.split_once("Cannot find column with position "))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()
}

/// The error for ORDER BY of a SELECT DISTINCT by what it does not select.
fn distinct_order(message: &str) -> Error {
    let column = message.split_once("expressions ").map_or("", |(_, rest)| rest);
    let column = column.split_once(" must appear").map_or(column, |(column, _)| column);
    err!(
        DistinctOrder,
        "Expression of ORDER BY clause is not in SELECT list, references column '{column}' which \
         is not in SELECT list; this is incompatible with DISTINCT"
    )
}

/// Maps errors that DataFusion distinguishes only by their messages.
fn worded(message: &str) -> Error {
    let first = message.lines().next().unwrap_or(message);
    let is = |part: &str| message.contains(part);
    let of_range = ["BIGINT", "BIGINT UNSIGNED", "DOUBLE", "FLOAT"]
        .map(|ty| format!("{ty} value is out of range"));
    if of_range.iter().any(|words| is(words)) {
        return Error::new(ErrorCode::ExpressionRange, first);
    }
    if is_of_subquery(message) {
        return subquery();
    }
    if is("Invalid function '") {
        let name = quoted(message, '\'');
        return err!(UnknownFunction, "FUNCTION {name} does not exist");
    }
    if let Some((_, table)) = first.split_once("Invalid qualifier ") {
        return err!(TableDropMissing, "Unknown table '{table}'");
    }
    if is("Projections require unique expression names") {
        let shown = quoted(message, '"');
        let name = shown.rsplit_once(" AS ").or_else(|| shown.rsplit_once('.'));
        return err!(DuplicateColumn, "Duplicate column name '{}'", name.map_or(shown, |of| of.1));
    }
    if (is("does not support type") || is("Failed to coerce arguments"))
        && let Some((_, call)) = message.split_once("the given name and argument types '")
    {
        let name = call.split('(').next().unwrap_or(call);
        return err!(WrongArguments, "Incorrect arguments to {name}: its types do not fit");
    }
    if is("Incorrect parameter count") {
        return Error::new(ErrorCode::ParameterCount, first);
    }
    if is("to grouping function is not in grouping columns") {
        return err!(NotGroupingKey, "Argument #1 of GROUPING function is not in GROUP BY");
    }
    if is("Invalid JSON path expression") {
        return Error::new(ErrorCode::InvalidJsonPath, first);
    }
    if is("Invalid JSON") {
        return Error::new(ErrorCode::InvalidJson, first);
    }
    if is("must appear in the GROUP BY clause") || is("must be in GROUP BY") {
        let column = quoted(message, '"');
        return err!(
            NotGrouped,
            "Expression of SELECT list is not in GROUP BY clause and contains nonaggregated \
             column '{column}' which is not functionally dependent on columns in GROUP BY clause"
        );
    }
    if is("For SELECT DISTINCT, ORDER BY expressions") {
        return distinct_order(message);
    }
    if let Some(place) = place_out_of_bounds(message) {
        return err!(UnknownColumn, "Unknown column '{place}' in 'order clause'");
    }
    if is("different number of columns") {
        return err!(SetColumns, "The used SELECT statements have a different number of columns");
    }
    if is("returned more than one row") || is("more than one row returned by a subquery") {
        return err!(SubqueryRows, "Subquery returns more than 1 row");
    }
    if is("should only return one column") || is("single column in the subquery") {
        return err!(OperandColumns, "Operand should contain 1 column(s)");
    }
    if is("ggregate functions are not allowed") || is("ggregate function calls cannot be nested") {
        return err!(WrongGroupFunction, "Invalid use of group function");
    }
    Error::new(ErrorCode::Unknown, first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::{plan_datafusion_err, resources_datafusion_err};

    #[test]
    fn errors_have_mysqls_numbers() {
        let ours = external(err!(NoSuchTable, "Table 'd.t' doesn't exist"));
        assert_eq!(mapped(ours.context("while planning")).code().errno(), 1146);
        let function = plan_datafusion_err!("Invalid function 'foo'.\nDid you mean 'floor'?");
        let error = mapped(function);
        assert_eq!((error.code().errno(), error.message()), (1305, "FUNCTION foo does not exist"));
        assert_eq!(mapped(resources_datafusion_err!("full")).code().errno(), 1038);
    }
}
