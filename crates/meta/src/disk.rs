//! The forms of metadata on disk: values of the store, and payloads of the log.
//!
//! Each value has a type of its own here, its form, so that a change of the live type changes
//! nothing on disk. Forms are encoded as protobuf (`prost`) behind a byte with their version. It
//! knows neither keys nor records; whoever reads says where the bytes were.
//!
//! Invariants: the tag of a field and the number of an enum's value never get another meaning (the
//! tests have the bytes of every form); reading is total, so a live value satisfies what the rest
//! of the code asserts about it; a form with fields that this version does not know is refused.
//! docs/rfc/0009-disk-formats.md says how a form may change.

mod catalog;
mod column;
mod event;
mod foreign;
mod log;
mod number;
mod partition;
mod policy;
mod prepared;
mod resting;
mod rowset;
mod sequence;
mod table;
mod term;
mod user;
mod user_options;
mod view;
mod workload;

use prost::Message;

/// The version of all forms.
const VERSION: u8 = 1;

/// Why bytes cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// A value with a form on disk.
pub trait OnDisk: Sized {
    type Form;

    fn form(&self) -> Self::Form;

    /// # Errors
    /// When a part is missing, a number is unknown, or the value would be inconsistent.
    fn from_form(form: Self::Form) -> Result<Self, Unreadable>;
}

pub fn encode<T: OnDisk<Form: Message>>(value: &T) -> Vec<u8> {
    let form = value.form();
    let mut bytes = Vec::with_capacity(1 + form.encoded_len());
    bytes.push(VERSION);
    form.encode(&mut bytes).expect("a Vec takes every byte");
    bytes
}

/// The length of what [`encode`] returns.
pub fn encoded_len<T: OnDisk<Form: Message>>(value: &T) -> usize {
    1 + value.form().encoded_len()
}

/// # Errors
/// When `bytes` are not what this version writes of some value.
pub fn decode<T: OnDisk<Form: Message + Default>>(bytes: &[u8]) -> Result<T, Unreadable> {
    let Some((&version, bytes)) = bytes.split_first() else {
        return Err(Unreadable("it is empty".to_owned()));
    };
    if version != VERSION {
        let what = format!("it is of version {version}, this server reads version {VERSION}");
        return Err(Unreadable(what));
    }
    let form = T::Form::decode(bytes).map_err(|error| Unreadable(error.to_string()))?;
    // `prost` skips what it does not know.
    ensure(form.encoded_len() == bytes.len(), "it has parts that this server does not know")?;
    T::from_form(form)
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), Unreadable> {
    if holds { Ok(()) } else { Err(Unreadable(otherwise.to_owned())) }
}

fn required<T: OnDisk>(form: Option<T::Form>, part: &str) -> Result<T, Unreadable> {
    T::from_form(form.ok_or_else(|| Unreadable(format!("its {part} is missing")))?)
}

fn forms<T: OnDisk>(values: &[T]) -> Vec<T::Form> {
    values.iter().map(T::form).collect()
}

fn from_forms<T: OnDisk>(forms: Vec<T::Form>) -> Result<Vec<T>, Unreadable> {
    forms.into_iter().map(T::from_form).collect()
}

/// The numbers of an enum's values on disk. None is 0, which a missing number is read as.
macro_rules! numbered {
    ($name:ident { $($value:ident = $number:literal),* $(,)? }) => {
        impl OnDisk for $name {
            type Form = u32;

            fn form(&self) -> u32 {
                match self { $(Self::$value => $number,)* }
            }

            fn from_form(number: u32) -> Result<Self, Unreadable> {
                match number {
                    $($number => Ok(Self::$value),)*
                    _ => Err(Unreadable(format!("{number} is no {}", stringify!($name)))),
                }
            }
        }
    };
}
use numbered;

#[cfg(test)]
mod tests;
