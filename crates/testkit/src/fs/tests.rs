use super::*;
use crate::inode::SECTOR_BYTES;

fn disk(seed: u64) -> SimFs {
    let fs = SimFs::new(StdRng::seed_from_u64(seed), 1 << 20);
    fs.make_dir(Path::new("/d")).unwrap();
    fs
}

#[test]
fn what_was_synced_survives_every_crash() {
    for seed in 0..50 {
        let fs = disk(seed);
        let file = fs.open(Path::new("/d/a"), Mode::CreateNew).unwrap();
        file.write_all_at(&[7; 2000], 0).unwrap();
        file.sync().unwrap();
        fs.sync_dir(Path::new("/d")).unwrap();
        file.write_all_at(&[9; 2000], 0).unwrap();
        fs.crash();
        assert!(file.len_bytes().is_err(), "a file of before the crash is dead");
        let bytes = fs.read(Path::new("/d/a")).unwrap();
        assert_eq!(bytes.len(), 2000);
        assert!(bytes.chunks(SECTOR_BYTES).all(|s| s.iter().all(|b| *b == s[0])));
    }
}

#[test]
fn what_was_not_synced_is_lost_in_some_crashes_and_torn_in_some() {
    let (mut lost, mut torn) = (0, 0);
    for seed in 0..50 {
        let fs = disk(seed);
        let file = fs.open(Path::new("/d/a"), Mode::CreateNew).unwrap();
        file.write_all_at(&[7; 2048], 0).unwrap();
        fs.crash();
        match fs.read(Path::new("/d/a")) {
            Err(_) => lost += 1,
            Ok(bytes) if bytes.contains(&0) && bytes.contains(&7) => torn += 1,
            Ok(_) => {}
        }
    }
    assert!(lost > 5 && torn > 5, "{lost} lost, {torn} torn");
}

#[test]
fn a_directory_that_was_not_synced_takes_along_what_was_synced_in_it() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..50 {
        let fs = disk(seed);
        let (dir, path) = (Path::new("/d/e/f"), Path::new("/d/e/f/a"));
        fs.create_dir_all(dir).unwrap();
        let file = fs.open(path, Mode::CreateNew).unwrap();
        file.write_all_at(&[7; 512], 0).unwrap();
        file.sync().unwrap();
        fs.sync_dir(dir).unwrap();
        fs.sync_dir(Path::new("/d/e")).unwrap();
        let is_synced = seed % 2 == 0;
        if is_synced {
            fs.sync_dir(Path::new("/d")).unwrap();
        }
        fs.crash();
        match fs.read(path) {
            Ok(bytes) => assert_eq!(bytes, [7; 512]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
        }
        assert_eq!(fs.exists(dir), fs.exists(path), "they go together");
        assert!(fs.exists(path) || !is_synced, "what was synced stays");
        if fs.exists(path) { kept += 1 } else { lost += 1 }
    }
    assert!(lost > 5 && kept > 25, "{lost} lost, {kept} kept");
}

#[test]
fn a_full_disk_refuses_growth_only() {
    let fs = disk(1);
    let file = fs.open(Path::new("/d/a"), Mode::CreateNew).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    fs.set_capacity_bytes(4096);
    file.write_all_at(&[2; 4096], 0).unwrap();
    let error = file.write_all_at(&[3; 1], 4096).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn the_process_dies_in_the_call_it_is_told_to() {
    let fs = disk(1);
    let file = fs.open(Path::new("/d/a"), Mode::CreateNew).unwrap();
    fs.set_faults(Faults { crash_in_calls: 2, ..Faults::default() });
    file.write_all_at(&[1; 10], 0).unwrap();
    assert!(file.write_all_at(&[1; 10], 0).is_err());
    assert!(fs.has_crashed());
    assert!(file.sync().is_err());
    fs.crash();
    assert!(!fs.has_crashed());
}

#[test]
fn the_end_of_a_process_loses_nothing_and_makes_nothing_durable() {
    let mut lost = 0;
    for seed in 0..20 {
        let fs = disk(seed);
        let file = fs.open(Path::new("/d/a"), Mode::CreateNew).unwrap();
        file.write_all_at(&[7; 2048], 0).unwrap();
        fs.end_process();
        assert!(file.sync().is_err(), "its files are dead");
        assert_eq!(fs.read(Path::new("/d/a")).unwrap(), [7; 2048]);
        fs.crash();
        lost += usize::from(fs.read(Path::new("/d/a")).is_err());
    }
    assert!(lost > 2, "{lost} lost");
}

#[test]
fn what_a_sync_failed_to_write_no_later_sync_writes() {
    let fs = disk(1);
    let file = fs.open(Path::new("/d/a"), Mode::CreateNew).unwrap();
    file.write_all_at(&[1; 512], 0).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/d")).unwrap();
    file.write_all_at(&[2; 512], 0).unwrap();
    fs.set_faults(Faults { failing_writes: 1, ..Faults::default() });
    assert!(file.sync().is_err());
    file.sync().unwrap();
    assert_eq!(fs.read(Path::new("/d/a")).unwrap(), [2; 512]);
    file.drop_cache().unwrap();
    assert_eq!(fs.read(Path::new("/d/a")).unwrap(), [1; 512]);
}

#[test]
fn blocks_of_a_torn_write_have_the_fates_that_they_were_given() {
    let fs = disk(1);
    let path = Path::new("/d/a");
    let write = |byte: u8| {
        let file = fs.open(path, Mode::Direct).unwrap();
        file.write_all_at(&[byte; 4 * 4096], 0)
    };
    let blocks = || fs.read(path).unwrap().chunks(4096).map(|b| b[0]).collect::<Vec<_>>();
    fs.open(path, Mode::CreateNew).unwrap();
    fs.sync_dir(Path::new("/d")).unwrap();
    fs.cut_after(1, vec![Fate::Old, Fate::New, Fate::Garbage, Fate::Volatile]);
    write(1).unwrap();
    assert!(write(2).is_err() && fs.has_crashed());
    fs.crash();
    assert_eq!(blocks(), [1, 2, 1 ^ 0x5a, 2]);
    fs.crash();
    assert_eq!(blocks(), [1, 2, 1 ^ 0x5a, 1]);
    fs.cut_after(0, vec![Fate::Volatile]);
    assert!(write(3).is_err());
    fs.crash();
    write(3).unwrap();
    fs.crash();
    assert_eq!(blocks(), [3; 4], "what is written again stays");
}
