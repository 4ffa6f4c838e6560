//! system
/// Whether a database is one of those that are always there.
pub fn is_system(name: &str) -> bool {
    crate::rewrite::is_system(name)
}
