//! The files of bodies.

/// The name that the file of a body has at first.
pub(super) fn body_name(number: u64) -> String {
    format!("body-{number:016x}")
}
