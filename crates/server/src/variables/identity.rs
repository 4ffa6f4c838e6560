//! The value of `server_uuid`.

use std::path::Path;

use sha1::{Digest, Sha1};

/// A UUID that is the same after each start: version 5, made of where the store is and of where the
/// server listens.
pub fn server_uuid(data_dir: &Path, port: u16) -> String {
    let digest = Sha1::digest(format!("freshet:{}:{port}", data_dir.display()));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart() {
        let here = server_uuid(Path::new("/data"), 9030);
        assert_eq!(here, server_uuid(Path::new("/data"), 9030));
        assert_ne!(here, server_uuid(Path::new("/data"), 9031));
        assert_eq!((here.len(), &here[14..15]), (36, "5"));
    }
}
