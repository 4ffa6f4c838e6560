//! The state of the log.

use freshet_base::{BatchIndex, LogPosition, Lsn, Term};
use prost::Message;

use super::{OnDisk, Unreadable, ensure, forms, from_forms, required};
use crate::log_state::{AcceptedHole, LogFileRecord, LogSecret, LogState};

#[derive(Clone, PartialEq, Message)]
pub struct LogForm {
    #[prost(fixed64, tag = "1")]
    store: u64,
    #[prost(message, repeated, tag = "2")]
    secrets: Vec<SecretForm>,
    #[prost(string, repeated, tag = "3")]
    dirs: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    files: Vec<FileForm>,
    #[prost(uint64, tag = "5")]
    next_file: u64,
    #[prost(message, optional, tag = "6")]
    recycled: Option<PositionForm>,
    #[prost(string, optional, tag = "7")]
    side_file: Option<String>,
    #[prost(message, repeated, tag = "8")]
    holes: Vec<HoleForm>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct SecretForm {
    #[prost(uint64, tag = "1")]
    from: u64,
    #[prost(fixed64, tag = "2")]
    key_low: u64,
    #[prost(fixed64, tag = "3")]
    key_high: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct FileForm {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    path: String,
    #[prost(uint64, tag = "3")]
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct PositionForm {
    #[prost(uint64, tag = "1")]
    lsn: u64,
    #[prost(uint64, tag = "2")]
    index: u64,
    #[prost(uint64, tag = "3")]
    term: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct HoleForm {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(uint64, tag = "2")]
    last: u64,
}

impl OnDisk for LogState {
    type Form = LogForm;

    fn form(&self) -> LogForm {
        LogForm {
            store: self.store,
            secrets: forms(&self.secrets),
            dirs: self.dirs.clone(),
            files: forms(&self.files),
            next_file: self.next_file,
            recycled: Some(self.recycled.form()),
            side_file: self.side_file.clone(),
            holes: forms(&self.holes),
        }
    }

    fn from_form(form: LogForm) -> Result<Self, Unreadable> {
        let secrets = from_forms::<LogSecret>(form.secrets)?;
        let files = from_forms::<LogFileRecord>(form.files)?;
        ensure(secrets.is_sorted_by(|a, b| a.from < b.from), "terms of its secrets do not rise")?;
        ensure(files.is_sorted_by(|a, b| a.id < b.id), "ids of its files do not rise")?;
        Ok(Self {
            store: form.store,
            secrets,
            dirs: form.dirs,
            files,
            next_file: form.next_file,
            recycled: required(form.recycled, "recycled position")?,
            side_file: form.side_file,
            holes: from_forms(form.holes)?,
        })
    }
}

impl OnDisk for LogSecret {
    type Form = SecretForm;

    fn form(&self) -> SecretForm {
        let [key_low, key_high] = self.key;
        SecretForm { from: self.from.get(), key_low, key_high }
    }

    fn from_form(form: SecretForm) -> Result<Self, Unreadable> {
        Ok(Self { from: Term(form.from), key: [form.key_low, form.key_high] })
    }
}

impl OnDisk for LogFileRecord {
    type Form = FileForm;

    fn form(&self) -> FileForm {
        FileForm { id: self.id, path: self.path.clone(), bytes: self.bytes }
    }

    fn from_form(FileForm { id, path, bytes }: FileForm) -> Result<Self, Unreadable> {
        Ok(Self { id, path, bytes })
    }
}

impl OnDisk for LogPosition {
    type Form = PositionForm;

    fn form(&self) -> PositionForm {
        let Self { lsn, index, term } = *self;
        PositionForm { lsn: lsn.get(), index: index.get(), term: term.get() }
    }

    fn from_form(PositionForm { lsn, index, term }: PositionForm) -> Result<Self, Unreadable> {
        Ok(Self { lsn: Lsn(lsn), index: BatchIndex(index), term: Term(term) })
    }
}

impl OnDisk for AcceptedHole {
    type Form = HoleForm;

    fn form(&self) -> HoleForm {
        HoleForm { first: self.first.get(), last: self.last.get() }
    }

    fn from_form(HoleForm { first, last }: HoleForm) -> Result<Self, Unreadable> {
        ensure(first <= last, "a hole ends before it begins")?;
        Ok(Self { first: Lsn(first), last: Lsn(last) })
    }
}
