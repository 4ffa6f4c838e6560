//! Changed directories and sizes of the log are either adopted without harm or refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use freshet_base::ByteSize;
use freshet_base::io::{Fs, Mode};
use freshet_ingest::check::{Loss, accept, check, next_loss};
use freshet_ingest::{Engine, STORE_FILE};
use freshet_schema::GroupCommitMode::Off;
use freshet_sim::harness::{Death, Sim};
use freshet_testkit::Faults;

use crate::{act, fill_log, store};

/// A store with a log in `/log`, in several files.
fn with_log_apart(seed: u64) -> Sim {
    let mut sim = store(seed);
    sim.end_life(Death::ProcessEnd);
    sim.config.wal_dirs = vec![PathBuf::from("/log")];
    sim.open();
    load_files(&sim);
    sim
}

fn load_files(sim: &Sim) {
    act(sim, |client| async move {
        for _ in 0..12 {
            client.load("a", 300, Off, None).await;
        }
    });
}

fn refusal(sim: &mut Sim) -> String {
    sim.try_open().expect("nobody dies").unwrap_err().to_string()
}

#[test]
fn a_log_directory_has_one_store() {
    let mut sim = with_log_apart(70);
    let other = PathBuf::from("/other");
    let mut second = sim.config.clone();
    second.data_dir.clone_from(&other);
    let world = sim.world();
    // While the first server runs, and after it ended.
    let refused = sim.run(Engine::open(second.clone(), world)).unwrap().map(drop).unwrap_err();
    assert!(refused.to_string().contains("/log belongs to another store"), "{refused}");
    sim.end_life(Death::PowerCut);
    let world = sim.world();
    let refused = sim.run(Engine::open(second, world)).unwrap().map(drop).unwrap_err();
    assert!(refused.to_string().contains("group_commit_wal_path"), "{refused}");
    assert!(!sim.fs.exists(&other.join(freshet_ingest::META_FILE)), "it was not begun");
    sim.open();
    sim.flush_and_check_leaks();
}

#[test]
fn sizes_and_places_of_log_files_may_change_at_a_start_that_dies_in_every_call() {
    let mut calls = 0;
    for call in 1.. {
        let mut sim = store(call);
        load_files(&sim);
        let death = if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd };
        sim.end_life(death);
        sim.config.wal_file_bytes = ByteSize::kib(if call % 3 == 0 { 128 } else { 512 });
        sim.config.wal_bytes_max = ByteSize::mib(3);
        // Rows only fill the log here: few files of many rows are enough.
        sim.config.flush_bytes = ByteSize::kib(64);
        sim.config.segment_bytes_max = ByteSize::kib(256);
        if call % 5 != 0 {
            sim.config.wal_dirs = vec![PathBuf::from("/log")];
        }
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        let died = sim.try_open().is_none();
        if died {
            sim.end_life(Death::PowerCut);
        } else {
            sim.end_life(Death::ProcessEnd);
        }
        sim.open();
        act(&sim, |client| async move { fill_log(&client, "b").await });
        sim.crash(Death::PowerCut);
        act(&sim, |client| async move { fill_log(&client, "b").await });
        let sizes = sim.engine().meta().log_state().files;
        let own = sim.config.wal_file_bytes.bytes();
        assert!(sizes.iter().all(|file| file.bytes == own), "{sizes:?}");
        sim.flush_and_check_leaks();
        if !died {
            calls = call;
            break;
        }
    }
    assert!(calls > 10, "{calls} calls");
}

#[test]
fn a_log_of_other_sizes_that_fills_the_disk_makes_room_by_itself() {
    let mut sim = store(71);
    load_files(&sim);
    sim.end_life(Death::PowerCut);
    sim.config.wal_file_bytes = ByteSize::kib(512);
    sim.config.wal_bytes_max = ByteSize::mib(2);
    sim.open();
    let taken = act(&sim, |client| async move {
        for _ in 0..40 {
            client.load("b", 300, Off, None).await;
        }
        client.load("a", 1, Off, None).await
    });
    let taken = taken.expect("nobody dies");
    assert!(matches!(taken, freshet_sim::loads::Outcome::Acknowledged(_)), "{taken:?}");
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_missing_log_directory_is_given_up_only_when_told() {
    for marked in [false, true] {
        let mut sim = with_log_apart(72);
        sim.end_life(Death::ProcessEnd);
        let log = Path::new("/log");
        match marked {
            true => sim.fs.remove_dir_all(log).unwrap(),
            // The disk exists, but the file that identifies its store is missing.
            false => sim.fs.remove_file(&log.join(STORE_FILE)).unwrap(),
        }
        let refused = refusal(&mut sim);
        assert!(refused.contains("log directory /log") && refused.contains("repair"), "{refused}");
        let (config, world) = (sim.config.clone(), sim.world());
        let report = check(&config, &world).unwrap();
        assert!(report.findings.iter().any(|finding| finding.file == log), "{report:?}");
        let loss = next_loss(&config, &world).unwrap().expect("it is a loss");
        let Loss::LogDir { files, .. } = &loss else { panic!("{loss}") };
        assert_eq!(files.is_empty(), !marked, "{loss}");
        if !marked {
            accept(&config, &world, &loss).unwrap();
            assert_eq!(next_loss(&config, &world).unwrap(), None, "nothing is lost");
            sim.open();
            sim.flush_and_check_leaks();
        }
    }
}

#[test]
fn a_log_that_is_newer_than_its_metadata_is_named() {
    let mut sim = with_log_apart(73);
    sim.end_life(Death::ProcessEnd);
    // The metadata is a backup from before this file was created.
    let newer = Path::new("/log/00000099.log");
    sim.fs.open(newer, Mode::CreateNew).unwrap().write_all_at(&[7; 4096], 0).unwrap();
    let refused = refusal(&mut sim);
    assert!(refused.contains("00000099.log") && refused.contains("metadata"), "{refused}");
    assert!(sim.fs.exists(newer));
    sim.fs.remove_file(newer).unwrap();
    // Files that were never finished or were given up may be removed.
    let state = sim.fs.files().into_iter().filter(|(path, _)| path.starts_with("/log"));
    assert!(state.count() > 2);
    sim.open();
    sim.flush_and_check_leaks();
}

#[test]
fn a_directory_that_the_log_has_left_may_be_another_stores() {
    let mut sim = with_log_apart(74);
    sim.end_life(Death::ProcessEnd);
    sim.config.wal_dirs = vec![PathBuf::from("/elsewhere")];
    sim.open();
    assert!(sim.fs.exists(Path::new("/log").join(STORE_FILE).as_path()), "it is still read");
    act(&sim, |client| async move {
        fill_log(&client, "b").await;
        fill_log(&client, "b").await;
        client.sleep(Duration::from_secs(1)).await;
    });
    sim.end_life(Death::ProcessEnd);
    sim.open();
    assert!(!sim.fs.exists(Path::new("/log").join(STORE_FILE).as_path()), "it is let go");
    sim.flush_and_check_leaks();
}
