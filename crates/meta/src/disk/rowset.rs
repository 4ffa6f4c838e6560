//! Rowsets, and how far a table is flushed.

use freshet_base::{Lsn, RowsetId, SchemaVersion, SegmentId, TabletId, Version};
use prost::Message;

use super::{OnDisk, Unreadable, ensure, forms, from_forms};
use crate::fold::Flushed;
use crate::rowset::{KeyPartMeta, KeyRange, MarkFileMeta, RowsetMeta, SegmentMeta};

/// Its rows are those of its segments.
#[derive(Clone, PartialEq, Message)]
pub struct RowsetForm {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    tablet: u64,
    #[prost(uint64, tag = "3")]
    lsn_first: u64,
    #[prost(uint64, tag = "4")]
    lsn_last: u64,
    #[prost(uint32, tag = "5")]
    schema_version: u32,
    #[prost(message, repeated, tag = "6")]
    segments: Vec<SegmentForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SegmentForm {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(string, tag = "2")]
    file: String,
    #[prost(uint64, tag = "3")]
    rows: u64,
    #[prost(uint64, tag = "4")]
    bytes: u64,
    #[prost(uint64, tag = "5")]
    data_bytes: u64,
    #[prost(fixed32, tag = "6")]
    footer_checksum: u32,
    #[prost(message, optional, tag = "7")]
    keys: Option<KeysForm>,
    #[prost(message, optional, tag = "8")]
    key_part: Option<KeyPartForm>,
    #[prost(bool, tag = "9")]
    removes: bool,
}

/// It begins where the data ends.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct KeyPartForm {
    #[prost(uint64, tag = "1")]
    bytes: u64,
    #[prost(uint32, tag = "2")]
    directory_bytes: u32,
    #[prost(fixed32, tag = "3")]
    directory_checksum: u32,
}

/// Prefixes use all their bits, so their bytes are fixed.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct KeysForm {
    #[prost(fixed64, tag = "1")]
    min: u64,
    #[prost(fixed64, tag = "2")]
    max: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RowsetsForm {
    #[prost(message, repeated, tag = "1")]
    rowsets: Vec<RowsetForm>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct MarkFileForm {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(uint64, tag = "2")]
    from: u64,
    #[prost(uint64, tag = "3")]
    to: u64,
    #[prost(uint64, tag = "4")]
    bytes: u64,
    #[prost(fixed32, tag = "5")]
    head_checksum: u32,
    #[prost(uint64, tag = "6")]
    marks: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct FlushedForm {
    #[prost(uint64, tag = "1")]
    lsn: u64,
    #[prost(uint64, tag = "2")]
    version: u64,
    #[prost(uint64, tag = "3")]
    version_lsn: u64,
}

impl OnDisk for RowsetMeta {
    type Form = RowsetForm;

    fn form(&self) -> RowsetForm {
        RowsetForm {
            id: self.id.get(),
            tablet: self.tablet.get(),
            lsn_first: self.lsn_first.get(),
            lsn_last: self.lsn_last.get(),
            schema_version: self.schema_version.get(),
            segments: forms(&self.segments),
        }
    }

    fn from_form(form: RowsetForm) -> Result<Self, Unreadable> {
        let segments = from_forms::<SegmentMeta>(form.segments)?;
        ensure(form.lsn_first <= form.lsn_last, "a rowset ends before it begins")?;
        let rises = segments.is_sorted_by(|a, b| a.id < b.id);
        ensure(rises, "segment ids of a rowset do not rise")?;
        let sum =
            |of: fn(&SegmentMeta) -> u64| segments.iter().map(of).try_fold(0, u64::checked_add);
        let (Some(rows), Some(_)) = (sum(|segment| segment.rows), sum(|segment| segment.bytes))
        else {
            return Err(Unreadable("a rowset has impossibly many rows or bytes".to_owned()));
        };
        Ok(Self {
            id: RowsetId(form.id),
            tablet: TabletId(form.tablet),
            lsn_first: Lsn(form.lsn_first),
            lsn_last: Lsn(form.lsn_last),
            schema_version: SchemaVersion(form.schema_version),
            segments,
            rows,
        })
    }
}

impl OnDisk for SegmentMeta {
    type Form = SegmentForm;

    fn form(&self) -> SegmentForm {
        SegmentForm {
            id: self.id.get(),
            file: self.file.clone(),
            rows: self.rows,
            bytes: self.bytes,
            data_bytes: self.data_bytes,
            footer_checksum: self.footer_checksum,
            keys: Some(self.keys.form()),
            key_part: self.key_part.map(|part| {
                assert_eq!(part.start, self.data_bytes, "keys follow the data of a segment");
                KeyPartForm {
                    bytes: part.bytes,
                    directory_bytes: part.directory_bytes,
                    directory_checksum: part.directory_checksum,
                }
            }),
            removes: self.removes,
        }
    }

    fn from_form(form: SegmentForm) -> Result<Self, Unreadable> {
        let key_part = form.key_part.map(|part| KeyPartMeta {
            start: form.data_bytes,
            bytes: part.bytes,
            directory_bytes: part.directory_bytes,
            directory_checksum: part.directory_checksum,
        });
        let key_bytes = key_part.map_or(0, |part| part.bytes);
        let footer_start = form.data_bytes.checked_add(key_bytes);
        let is_inside = footer_start.is_some_and(|start| start <= form.bytes);
        ensure(is_inside, "the footer of a segment begins behind its end")?;
        let has_directory =
            key_part.is_none_or(|part| u64::from(part.directory_bytes) <= part.bytes);
        ensure(has_directory, "the directory of a segment's keys is longer than the keys")?;
        let keys = form.keys.ok_or_else(|| Unreadable("a segment has no keys".to_owned()))?;
        Ok(Self {
            id: SegmentId(form.id),
            file: form.file,
            rows: form.rows,
            bytes: form.bytes,
            data_bytes: form.data_bytes,
            key_part,
            footer_checksum: form.footer_checksum,
            keys: KeyRange::from_form(keys)?,
            removes: form.removes,
        })
    }
}

impl OnDisk for KeyRange {
    type Form = KeysForm;

    fn form(&self) -> KeysForm {
        KeysForm { min: self.min, max: self.max }
    }

    fn from_form(KeysForm { min, max }: KeysForm) -> Result<Self, Unreadable> {
        ensure(min <= max, "the keys of a segment end before they begin")?;
        Ok(Self { min, max })
    }
}

impl OnDisk for MarkFileMeta {
    type Form = MarkFileForm;

    fn form(&self) -> MarkFileForm {
        let Self { number, lsns: (from, to), bytes, head_checksum, marks } = *self;
        let (number, from, to) = (number.get(), from.get(), to.get());
        MarkFileForm { number, from, to, bytes, head_checksum, marks }
    }

    fn from_form(form: MarkFileForm) -> Result<Self, Unreadable> {
        let MarkFileForm { number, from, to, bytes, head_checksum, marks } = form;
        ensure(from < to, "the marks of a file are of no LSN")?;
        let (number, lsns) = (RowsetId(number), (Lsn(from), Lsn(to)));
        Ok(Self { number, lsns, bytes, head_checksum, marks })
    }
}

/// The rowsets of a large load.
impl OnDisk for Vec<RowsetMeta> {
    type Form = RowsetsForm;

    fn form(&self) -> RowsetsForm {
        RowsetsForm { rowsets: forms(self) }
    }

    fn from_form(form: RowsetsForm) -> Result<Self, Unreadable> {
        from_forms(form.rowsets)
    }
}

impl OnDisk for Flushed {
    type Form = FlushedForm;

    fn form(&self) -> FlushedForm {
        let Self { lsn, version, version_lsn } = *self;
        FlushedForm { lsn: lsn.get(), version: version.get(), version_lsn: version_lsn.get() }
    }

    fn from_form(form: FlushedForm) -> Result<Self, Unreadable> {
        let FlushedForm { lsn, version, version_lsn } = form;
        ensure(lsn <= version_lsn, "versions are counted less far than the table is flushed")?;
        Ok(Self { lsn: Lsn(lsn), version: Version(version), version_lsn: Lsn(version_lsn) })
    }
}
