//! The lists of ENUM and SET columns.

use std::collections::HashSet;

use freshet_base::{Result, bail};
use freshet_schema::collation::weights;
use freshet_schema::{Collation, Column, ColumnType};

use crate::spec::ColumnSpec;

/// The maximum number of texts of an ENUM: each value that is stored is looked for among them.
pub(crate) const ENUM_LABELS_MAX: usize = 4096;
/// The maximum number of texts of a SET, a bit for each.
pub(crate) const SET_LABELS_MAX: usize = 64;
/// The maximum length of a text.
pub(crate) const LABEL_CHARS_MAX: usize = 255;

/// Checks the list of a column with this collation.
pub(super) fn check(written: &ColumnSpec, collation: Collation) -> Result<()> {
    let ColumnSpec { name, ty, labels, .. } = written;
    let (word, max) = match ty {
        ColumnType::Enum { .. } => ("ENUM", ENUM_LABELS_MAX),
        ColumnType::Set { .. } => ("SET", SET_LABELS_MAX),
        _ => return Ok(()),
    };
    if labels.len() > max {
        bail!(
            TooManyLabels,
            "Too many strings for column {name} and {word}: {} of at most {max}",
            labels.len()
        );
    }
    distinct(name, word, labels, collation)?;
    for label in labels {
        if label.chars().count() > LABEL_CHARS_MAX {
            bail!(
                TooLongColumn,
                "Too long enumeration/set value for column {name} (max = {LABEL_CHARS_MAX})"
            );
        }
        if word == "SET" && label.contains(',') {
            bail!(IllegalSet, "Illegal set '{label}' value found during parsing");
        }
    }
    Ok(())
}

fn distinct(name: &str, word: &str, labels: &[String], collation: Collation) -> Result<()> {
    let mut known = HashSet::new();
    for label in labels {
        let mut bytes = Vec::new();
        weights::put(collation, label, &mut bytes);
        if !known.insert(bytes) {
            bail!(DuplicateLabel, "Column '{name}' has duplicated value '{label}' in {word}");
        }
    }
    Ok(())
}

/// Refuses a collation by which two texts of a column are the same.
pub(crate) fn check_distinct(column: &Column, collation: Collation) -> Result<()> {
    let word = if matches!(column.ty, ColumnType::Set { .. }) { "SET" } else { "ENUM" };
    distinct(&column.name, word, &column.labels, collation)
}

/// Refuses another list than one that has more at its end: values that are there keep their
/// numbers.
pub(crate) fn check_change(old: &Column, new: &Column) -> Result<()> {
    let both = old.ty.is_labelled() && new.ty.is_labelled();
    if both && !new.labels.starts_with(&old.labels) {
        bail!(
            NotSupported,
            "Can not change the list of column '{}' from {} to {}: texts are added at its end, \
             and none is taken out or moved; create a table with the new column, copy the rows by \
             INSERT .. SELECT, and exchange both by ALTER TABLE .. REPLACE WITH TABLE",
            old.name,
            old.type_text(),
            new.type_text()
        );
    }
    Ok(())
}
