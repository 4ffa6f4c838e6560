use super::*;

#[test]
fn every_code_has_a_five_character_state_and_a_refusing_status() {
    for code in ErrorCode::ALL {
        assert_eq!(code.sqlstate().len(), 5, "{code:?}");
        assert!(code.http_status() >= 400, "{code:?}");
        // MySQL has a few numbers that its clients know of the system.
        let is_of_files = *code == ErrorCode::FileNotFound;
        assert!(code.errno() >= 1000 || is_of_files, "{code:?}");
    }
}

#[test]
fn a_full_disk_is_told_from_other_io() {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    assert_eq!(Error::io("write a", full).code(), ErrorCode::DiskFull);
    let other = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let error = Error::io("open data/x", other);
    assert_eq!(error.code(), ErrorCode::Io);
    assert!(error.message().starts_with("open data/x: "));
}

#[test]
fn macros_format_and_return() {
    fn refuse(name: &str) -> Result<()> {
        bail!(NoSuchTable, "Table '{name}' doesn't exist");
    }
    let error = refuse("d.t").unwrap_err();
    assert_eq!(error.code().errno(), 1146);
    assert_eq!(error.message(), "Table 'd.t' doesn't exist");
}
