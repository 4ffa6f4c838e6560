//! Generated labels: they are derived from the transaction id and need no memory.

use freshet_base::TxnId;

/// The label of a group shared by loads, in Doris's format.
pub fn group_label(txn: TxnId) -> String {
    let (high, low) = spread(txn);
    format!("group_commit_{high:016x}_{low:016x}")
}

pub fn load_label(txn: TxnId) -> String {
    let (high, low) = spread(txn);
    format!("label_{high:016x}_{low:016x}")
}

/// The label of a transaction with several statements.
pub fn transaction_label(txn: TxnId) -> String {
    let (high, low) = spread(txn);
    format!("txn_insert_{high:016x}_{low:016x}")
}

/// The label of a DELETE in a reply; nobody asks for it later.
pub fn delete_label(txn: TxnId) -> String {
    let (high, low) = spread(txn);
    format!("delete_{high:016x}_{low:016x}")
}

/// The query id in a reply.
pub fn query_id(txn: TxnId, connection: u32) -> String {
    let (high, low) = spread(TxnId(txn.get() ^ (u64::from(connection) << 40)));
    format!("{high:016x}-{low:016x}")
}

/// Two words that look random and are a bijection of the id (the finalizer of splitmix64).
fn spread(txn: TxnId) -> (u64, u64) {
    let mix = |seed: u64| {
        let mut word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    (mix(txn.get()), mix(!txn.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_from_the_id_and_differ() {
        assert_eq!(group_label(TxnId(5)), group_label(TxnId(5)));
        assert_ne!(group_label(TxnId(5)), group_label(TxnId(6)));
        let label = group_label(TxnId(5));
        assert_eq!(label.len(), "group_commit_".len() + 33);
        assert!(label.starts_with("group_commit_"));
        assert!(load_label(TxnId(5)).starts_with("label_"));
    }
}
