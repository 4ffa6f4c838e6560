//! Loads of which some rows delete: in a table with a UNIQUE KEY such a row removes its key, or, by
//! a sequence column, is kept as one that does.

use std::sync::Arc;

use freshet_base::task::{Lane, Pool, run_each};
use freshet_base::{Result, err};
use freshet_schema::key::{KeyCodec, KeyRows};
use freshet_schema::row::RowCells;
use freshet_schema::{KeyModel, Table, TableSchema};
use freshet_storage::resolver::{KeyedRows, PIECE_KEYS, PIECES_BESIDE};

use crate::buffer::{LoadBuffer, row_count};
use crate::target::LoadTarget;

/// The rows of a record: the keys that are removed, then rows (keys.md K24). Of several rows of
/// one key the last one counts, whether it deletes or not.
///
/// # Errors
/// Never, as long as `rows` are as many encoded rows of the target as `deletes` has.
pub fn with_removals(target: &LoadTarget, rows: &[u8], deletes: &[bool]) -> Result<LoadBuffer> {
    assert_eq!(target.table().key_model, KeyModel::Unique, "other tables look before they delete");
    let schema = target.schema();
    if schema.sequence.is_some() {
        return with_signs(schema, rows, deletes);
    }
    let count = row_count(deletes.len())?;
    let keys = KeyedRows::of_encoded(rows, (count, 0), target.table(), schema);
    let counts = last_ones(&keys);
    let mut buffer = LoadBuffer::default();
    let removed = (0..count).filter(|at| counts[*at as usize] && deletes[*at as usize]);
    let removed = removed.map(|at| keys.key(at)).collect::<Vec<_>>();
    put_removals(schema, removed.into_iter(), &mut buffer)?;
    let (cells, mut rest, mut kept) = (RowCells::new(schema), rows, 0);
    for at in 0..deletes.len() {
        let (row, behind) = rest.split_at(cells.row_bytes(rest));
        rest = behind;
        if counts[at] && !deletes[at] {
            buffer.resume().extend_from_slice(row);
            kept += 1;
        }
    }
    assert!(rest.is_empty(), "each row is told whether it deletes");
    buffer.count(kept)?;
    Ok(buffer)
}

/// Begins a buffer with rows that only remove their key.
pub(crate) fn put_removals<'k>(
    schema: &TableSchema,
    keys: impl ExactSizeIterator<Item = &'k [u8]>,
    to: &mut LoadBuffer,
) -> Result<()> {
    let count = keys.len();
    encode(schema, keys, to.begin())?;
    to.count(count)?;
    to.removes_so_far();
    Ok(())
}

/// How long a record may be.
pub(crate) struct RecordLimit<'a> {
    /// More is never taken for it in advance.
    pub bytes_max: usize,
    /// Refuses a record of so many bytes.
    pub check: &'a (dyn Fn(usize) -> Result<()> + Sync),
}

/// As [`put_removals`], of the keys of all of these rows; many are encoded by several threads, as
/// long as the record is not too long.
///
/// # Errors
/// Those of the check.
pub(crate) async fn put_all_removals(
    pool: &dyn Pool,
    schema: &Arc<TableSchema>,
    rows: &KeyedRows,
    (to, limit): (&mut LoadBuffer, RecordLimit<'_>),
) -> Result<()> {
    let (count, out) = (rows.len(), to.begin());
    if count <= PIECE_KEYS {
        encode(schema, (0..count).map(|at| rows.key(at)), out)?;
    } else {
        let jobs = (0..count).step_by(PIECE_KEYS as usize).map(|from| {
            let (schema, rows) = (Arc::clone(schema), rows.clone());
            move || {
                let (to, mut piece) = (count.min(from.saturating_add(PIECE_KEYS)), Vec::new());
                encode(&schema, (from..to).map(|at| rows.key(at)), &mut piece).map(|()| piece)
            }
        });
        let (head, pieces) = (out.len(), count.div_ceil(PIECE_KEYS) as usize);
        let take = |piece: Result<Vec<u8>>| -> Result<()> {
            let piece = piece?;
            if out.len() == head {
                // The others are about as long; a buffer that grows is copied as often.
                out.reserve_exact((piece.len() * pieces).min(limit.bytes_max));
            }
            out.extend_from_slice(&piece);
            (limit.check)(out.len())
        };
        run_each(pool, (Lane::Foreground, PIECES_BESIDE), jobs, take).await?;
    }
    to.count(count as usize)?;
    to.removes_so_far();
    Ok(())
}

/// Appends rows that only remove these keys.
fn encode<'k>(
    schema: &TableSchema,
    keys: impl Iterator<Item = &'k [u8]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let codec = KeyCodec::of_sort_key(schema);
    let mut rows = KeyRows::new(&codec, schema);
    for key in keys {
        let put = rows.put(key, out);
        put.map_err(|what| err!(Internal, "the key of a stored row is {what}"))?;
    }
    Ok(())
}

/// Which rows are the last ones of their key.
fn last_ones(keys: &KeyedRows) -> Vec<bool> {
    let mut counts = vec![false; keys.len() as usize];
    for group in keys.groups() {
        let last = group.last().expect("a group has a row");
        counts[*last as usize] = true;
    }
    counts
}

/// Some encoded rows of a large load, one after another.
#[derive(Default)]
pub(crate) struct Encoded {
    pub bytes: Vec<u8>,
    pub rows: u32,
}

/// Rows of a large load of which those in `deletes` only remove their key: these, and those that
/// are written. Of several rows of one key the last one counts.
///
/// # Errors
/// `OutOfRoom` for more rows than a load may have.
pub(crate) fn divided(
    (table, schema): (&Table, &TableSchema),
    rows: &[u8],
    deletes: &[bool],
) -> Result<(Encoded, Encoded)> {
    let count = row_count(deletes.len())?;
    let counts = last_ones(&KeyedRows::of_encoded(rows, (count, 0), table, schema));
    let (mut removed, mut kept) = (Encoded::default(), Encoded::default());
    let cells = RowCells::new(schema);
    for ((row, counts), deletes) in cells.rows(rows).zip(counts).zip(deletes) {
        if counts {
            let to = if *deletes { &mut removed } else { &mut kept };
            to.bytes.extend_from_slice(row);
            to.rows += 1;
        }
    }
    Ok((removed, kept))
}

/// The rows of a record, some of which delete their key. Which of those of a key counts is known
/// once they stand beside the stored ones.
fn with_signs(schema: &TableSchema, rows: &[u8], deletes: &[bool]) -> Result<LoadBuffer> {
    let mut buffer = LoadBuffer::default();
    buffer.begin().reserve(rows.len());
    put_signed(schema, rows, deletes, buffer.resume());
    buffer.count(deletes.len())?;
    Ok(buffer)
}

/// Appends rows in the form in which a table with a sequence column keeps those that delete.
pub(crate) fn put_signed(schema: &TableSchema, rows: &[u8], deletes: &[bool], out: &mut Vec<u8>) {
    let (cells, mut rest) = (RowCells::new(schema), rows);
    for deletes in deletes {
        let (row, behind) = rest.split_at(cells.row_bytes(rest));
        rest = behind;
        match deletes {
            true => schema.put_deleted(row, out),
            false => out.extend_from_slice(row),
        }
    }
    assert!(rest.is_empty(), "each row is told whether it deletes");
}
