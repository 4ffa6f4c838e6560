use super::*;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

fn flags(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn flags_go_over_environment_over_file() {
    let path = Path::new("f.toml");
    let text = "flush_bytes = '1MiB'\nload_patience = '1s'\nlabels_max = 7\ncompaction = false";
    let environment =
        flags(&[("FRESHET_LOAD_PATIENCE", "2s"), ("FRESHET_LABELS_MAX", "8"), ("X", "y")]);
    let (config, passed_over) = Config::load(&Sources {
        file: Some((path, text)),
        environment: &environment,
        flags: &flags(&[("labels_max", "9")]),
    })
    .unwrap();
    assert_eq!(passed_over, Vec::<String>::new());
    assert_eq!(config.flush_bytes, ByteSize::mib(1));
    assert_eq!(config.load_patience, Duration::from_secs(2));
    assert_eq!((config.labels_max, config.compaction), (9, false));
    assert_eq!(config.wal_file_bytes, ByteSize::mib(64));
}

#[test]
fn all_problems_are_told_at_once() {
    let text = "flush_byte = 1\nload_patience = 'soon'\nlabels_max = [1]";
    let problems = Config::load(&Sources {
        file: Some((Path::new("f.toml"), text)),
        environment: &flags(&[("FRESHET_WRITE_MEMORY", "200%"), ("FRESHET_LABELS_MAX", "0")]),
        flags: &flags(&[("http_listen", "127.0.0.1:9030"), ("wal_bytes_max", "64MiB")]),
    })
    .unwrap_err();
    assert_eq!(problems.len(), 7, "{problems:#?}");
    assert!(problems[0].contains("did you mean 'flush_bytes'?"), "{problems:#?}");
    assert!(problems.iter().any(|problem| problem.contains("f.toml: load_patience: 'soon'")));
    assert!(problems.iter().any(|problem| problem.contains("FRESHET_LABELS_MAX")));
    assert!(problems.iter().any(|problem| problem.contains("the same address")));
}

#[test]
fn a_variable_that_is_no_setting_is_passed_over() {
    let environment = flags(&[("FRESHET_BIN", "/freshet"), ("FRESHET_LABEL_MAX", "7")]);
    let sources = Sources { environment: &environment, ..Sources::default() };
    let (config, passed_over) = Config::load(&sources).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(passed_over.len(), 2, "{passed_over:#?}");
    assert!(passed_over[1].contains("did you mean 'labels_max'?"), "{passed_over:#?}");
}

#[test]
fn memory_is_a_part_or_a_size() {
    assert_eq!(Memory::Percent(40).of(ByteSize::gib(10)).bytes() >> 20, 4095);
    assert_eq!(parse::memory("1GiB"), Ok(Memory::Bytes(ByteSize::gib(1))));
    assert!(parse::memory("0%").is_err());
    assert!(parse::directories("/a;b").is_err());
    assert_eq!(parse::directories("/a; /b").unwrap().len(), 2);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_document_says_what_the_list_says() {
    let written = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    assert!(written == document(), "docs/configuration.md is out of date; write it with make docs");
}
