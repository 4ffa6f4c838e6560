//! Numbers that are values of their own.

use freshet_base::Lsn;

use super::{OnDisk, Unreadable};

impl OnDisk for u64 {
    type Form = u64;

    fn form(&self) -> u64 {
        *self
    }

    fn from_form(form: u64) -> Result<Self, Unreadable> {
        Ok(form)
    }
}

impl OnDisk for i64 {
    type Form = i64;

    fn form(&self) -> i64 {
        *self
    }

    fn from_form(form: i64) -> Result<Self, Unreadable> {
        Ok(form)
    }
}

impl OnDisk for Lsn {
    type Form = u64;

    fn form(&self) -> u64 {
        self.get()
    }

    fn from_form(form: u64) -> Result<Self, Unreadable> {
        Ok(Self(form))
    }
}
