use std::path::PathBuf;

use freshet_testkit::{Fate, SimFs};

use super::*;

fn path() -> PathBuf {
    PathBuf::from("/raft.state")
}

fn read(fs: &SimFs) -> TermFile {
    read_term(fs, &path()).unwrap()
}

#[test]
fn a_term_comes_back_and_one_rotten_block_harms_nobody() {
    let fs = SimFs::default();
    assert_eq!(read(&fs), TermFile::Missing);
    write_term(&fs, &path(), Term(7)).unwrap();
    assert_eq!(read(&fs), TermFile::Term(Term(7)));
    for block in 0..2 {
        for byte in 0..STATE_BYTES {
            fs.edit(&path(), |bytes| bytes[block * BLOCK + byte] ^= 1);
            assert_eq!(read(&fs), TermFile::OneBlock(Term(7)), "byte {byte} of block {block}");
            fs.edit(&path(), |bytes| bytes[block * BLOCK + byte] ^= 1);
        }
    }
    fs.edit(&path(), |bytes| {
        bytes[8] ^= 1;
        bytes[BLOCK + 20] ^= 1;
    });
    assert_eq!(read(&fs), TermFile::Damaged);
}

/// A power cut in either write leaves the old or the new term, and the file is never lost; after a
/// complete write both blocks have the term.
#[test]
fn a_torn_write_leaves_one_term_or_the_other() {
    for fate in [Fate::Old, Fate::New, Fate::Garbage] {
        for write in 0..2 {
            let fs = SimFs::default();
            write_term(&fs, &path(), Term(7)).unwrap();
            fs.cut_after(write, vec![fate]);
            assert!(write_term(&fs, &path(), Term(8)).is_err());
            fs.crash();
            let term = read(&fs).term().unwrap_or_else(|| panic!("{fate:?} in write {write}"));
            assert!(term == Term(7) || term == Term(8));
            write_term(&fs, &path(), term.next()).unwrap();
            for block in 0..2 {
                fs.edit(&path(), |bytes| bytes[block * BLOCK] ^= 1);
                assert_eq!(read(&fs), TermFile::OneBlock(term.next()));
                fs.edit(&path(), |bytes| bytes[block * BLOCK] ^= 1);
            }
        }
    }
}

/// A damaged block is written before an intact one.
#[test]
fn a_write_that_is_torn_leaves_the_block_that_was_good() {
    for rotten in 0..2 {
        let fs = SimFs::default();
        write_term(&fs, &path(), Term(7)).unwrap();
        fs.edit(&path(), |bytes| bytes[rotten * BLOCK + 8] ^= 1);
        fs.cut_after(0, vec![Fate::Garbage]);
        assert!(write_term(&fs, &path(), Term(8)).is_err());
        fs.crash();
        assert_eq!(read(&fs), TermFile::OneBlock(Term(7)), "block {rotten} was rotten");
    }
    // Nor is a truncated file recreated.
    let fs = SimFs::default();
    write_term(&fs, &path(), Term(7)).unwrap();
    fs.edit(&path(), |bytes| bytes.truncate(BLOCK + 10));
    assert_eq!(read(&fs), TermFile::OneBlock(Term(7)));
    fs.cut_after(0, vec![Fate::Garbage]);
    assert!(write_term(&fs, &path(), Term(8)).is_err());
    fs.crash();
    assert_eq!(read(&fs), TermFile::OneBlock(Term(7)));
    write_term(&fs, &path(), Term(8)).unwrap();
    assert_eq!(read(&fs), TermFile::Term(Term(8)));
}

#[test]
fn a_term_has_a_salt_of_its_own_and_there_is_none_before_the_first() {
    let secrets = [Secret { from: Term(0), key: [1, 2] }, Secret { from: Term(3), key: [3, 4] }];
    let terms = Terms::new(&secrets);
    let of = |term: u64| terms.salt(Term(term)).map(|salt| salt.checksum(&[b"bytes"]));
    assert_eq!(of(0), None);
    let sums = [1, 2, 3, 4].map(|term| of(term).unwrap());
    assert!((1..4).all(|at| !sums[..at].contains(&sums[at])), "{sums:?}");
    let before = Terms::new(&secrets[..1]);
    let unchanged = |term: u64| before.salt(Term(term)).unwrap().checksum(&[b"bytes"]);
    assert_eq!(unchanged(2), sums[1], "a new secret leaves the terms before it alone");
    assert_ne!(unchanged(3), sums[2]);
}
