//! Labels in records.

use freshet_base::{DbId, Result, TxnId, err};
use freshet_meta::LabelKind;

use super::reader::Reader;

/// A label given by a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label<'a> {
    pub db: DbId,
    /// Determines how long it is kept.
    pub kind: LabelKind,
    /// When its load was committed, in microseconds since 1970-01-01 UTC.
    pub wall_micros: i64,
    /// The transaction that its client knows, where that is not the one of the record: of a
    /// prepared load whose commit has joined a group.
    pub known: Option<TxnId>,
    pub text: &'a str,
}

/// The label of a record that is no load, with the transaction of what it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignedLabel<'a> {
    pub label: Label<'a>,
    pub txn: TxnId,
}

/// The first byte of a payload that has a label in front.
const LABELLED: u8 = 9;

/// Bytes of a label besides its text: database, kind, time and known transaction.
pub(crate) const LABEL_HEAD_BYTES: usize = 8 + 1 + 8 + 8;

/// The kinds of labels in records: of statements, of streams, and of streams with a known
/// transaction.
const STATEMENT: u8 = 1;
const STREAMING: u8 = 2;
const KNOWN: u8 = 3;

/// Appends a label after the parts.
pub fn write_label(payload: &mut Vec<u8>, label: &Label<'_>) {
    payload.extend_from_slice(&label.db.get().to_le_bytes());
    payload.push(match (label.kind, label.known) {
        (_, Some(_)) => KNOWN,
        (LabelKind::Statement, None) => STATEMENT,
        (LabelKind::Streaming, None) => STREAMING,
    });
    payload.extend_from_slice(&label.wall_micros.to_le_bytes());
    if let Some(txn) = label.known {
        assert_eq!(label.kind, LabelKind::Streaming, "streams are prepared");
        payload.extend_from_slice(&txn.get().to_le_bytes());
    }
    payload.extend_from_slice(label.text.as_bytes());
}

/// The payload of a barrier or metadata record, with a label in front.
pub fn labelled(signed: &SignedLabel<'_>, payload: &[u8]) -> Vec<u8> {
    let mut label = Vec::new();
    write_label(&mut label, &signed.label);
    let bytes = u8::try_from(label.len()).expect("a label has at most 128 characters");
    let txn = signed.txn.get().to_le_bytes();
    [&[LABELLED], &txn[..], &[bytes], &label, payload].concat()
}

/// The label in front of a payload, and the payload behind it.
pub(super) fn split(payload: &[u8]) -> Result<(Option<SignedLabel<'_>>, Reader<'_>)> {
    let mut payload = Reader(payload);
    if payload.0.first() != Some(&LABELLED) {
        return Ok((None, payload));
    }
    payload.u8()?;
    let (txn, bytes) = (TxnId(payload.u64()?), payload.u8()?);
    let label = Reader(payload.take(usize::from(bytes))?).label()?;
    Ok((Some(SignedLabel { label, txn }), payload))
}

impl<'a> Reader<'a> {
    /// The label that these bytes are.
    pub fn label(&mut self) -> Result<Label<'a>> {
        let db = DbId(self.u64()?);
        let (kind, is_known) = match self.u8()? {
            STATEMENT => (LabelKind::Statement, false),
            STREAMING => (LabelKind::Streaming, false),
            KNOWN => (LabelKind::Streaming, true),
            other => return Err(err!(Corruption, "label of unknown kind {other} in the log")),
        };
        let wall_micros = i64::from_le_bytes(self.array()?);
        let known = if is_known { Some(TxnId(self.u64()?)) } else { None };
        let text = std::str::from_utf8(self.0)
            .map_err(|_| err!(Corruption, "a label in the log is no text"))?;
        Ok(Label { db, kind, wall_micros, known, text })
    }
}
