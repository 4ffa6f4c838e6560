//! Writing integers and strings in the encodings of the protocol.

/// Appends a length-encoded integer.
#[inline]
pub(crate) fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0xfa => out.push(value as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(value as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&(value as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Appends bytes preceded by their length-encoded length.
#[inline]
pub(crate) fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends zero-terminated bytes, which must not contain a zero byte.
pub(crate) fn put_nul_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(!bytes.contains(&0), "a zero byte would end the string early");
    out.extend_from_slice(bytes);
    out.push(0);
}

/// The length that [`put_lenenc`] needs for `value`.
pub(crate) fn lenenc_len(value: usize) -> usize {
    match value {
        0..=0xfa => 1,
        0xfb..=0xffff => 3,
        0x1_0000..=0xff_ffff => 4,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Cursor;
    use proptest::prelude::*;

    #[test]
    fn lengths_change_at_the_borders() {
        for (value, bytes) in [
            (0, 1),
            (250, 1),
            (251, 3),
            (0xffff, 3),
            (0x1_0000, 4),
            (0xff_ffff, 4),
            (0x100_0000, 9),
        ] {
            let mut out = Vec::new();
            put_lenenc(&mut out, value as u64);
            assert_eq!((out.len(), lenenc_len(value)), (bytes, bytes), "{value}");
        }
    }

    proptest! {
        #[test]
        fn lenenc_round_trip(value in any::<u64>(), shift in 0..64u32) {
            let mut out = Vec::new();
            put_lenenc(&mut out, value >> shift);
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.lenenc("value"), Ok(value >> shift));
            prop_assert!(cursor.is_empty());
        }
    }
}
