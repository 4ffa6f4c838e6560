use freshet_base::ErrorCode;
use hyper::header::{HeaderName, HeaderValue};

use super::*;

fn parse(pairs: &[(&str, &str)]) -> Result<LoadHeaders> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    LoadHeaders::parse(&headers)
}

fn refusal(name: &str, value: &str) -> String {
    let error = parse(&[(name, value)]).unwrap_err();
    assert!(matches!(error.code(), ErrorCode::WrongArguments | ErrorCode::NotSupported));
    error.message().to_owned()
}

fn csv_of(pairs: &[(&str, &str)]) -> CsvFormat {
    match parse(pairs).unwrap().format {
        LoadFormat::Csv(csv) => csv,
        _ => panic!("csv was asked for"),
    }
}

#[test]
fn nothing_given_is_csv_with_tabs_and_no_bad_row() {
    let headers = parse(&[("x-unknown", "1"), ("host", "h")]).unwrap();
    assert_eq!(headers.format, LoadFormat::Csv(CsvFormat::default()));
    assert_eq!((headers.max_filter_ratio, headers.strict), (0.0, false));
    assert_eq!((headers.label, headers.group_commit, headers.columns), (None, None, None));
}

#[test]
fn values_are_read() {
    let headers = parse(&[
        ("Label", "l1"),
        ("group_commit", "ASYNC_mode"),
        ("columns", "a, `b` ,c"),
        ("max_filter_ratio", "0.25"),
        ("timeout", "60"),
        ("strict_mode", "TRUE"),
        ("timezone", "+08:00"),
        ("comment", "hello"),
    ])
    .unwrap();
    assert_eq!(headers.label.as_deref(), Some("l1"));
    assert_eq!(headers.group_commit, Some(GroupCommitMode::Async));
    assert_eq!(headers.columns.unwrap(), "a, `b` ,c");
    assert_eq!(headers.timeout, Duration::from_secs(60));
    assert!(headers.strict && headers.zone.is_some());
    assert_eq!((headers.max_filter_ratio, headers.comment.as_str()), (0.25, "hello"));
}

#[test]
fn csv_is_cut_as_asked() {
    let csv = csv_of(&[("column_separator", "\\x01"), ("line_delimiter", "\\r\\n")]);
    assert_eq!((csv.separator.as_slice(), csv.delimiter.as_slice()), (&b"\x01"[..], &b"\r\n"[..]));
    assert_eq!(csv_of(&[("column_separator", ",")]).separator, b",");
    assert_eq!(csv_of(&[("skip_lines", "3")]).skip_lines, 3);
    assert_eq!(csv_of(&[("format", "CSV_with_names"), ("skip_lines", "3")]).skip_lines, 1);
    assert_eq!(csv_of(&[("format", "csv_with_names_and_types")]).skip_lines, 2);
    assert_eq!(csv_of(&[("enclose", "'")]).enclose, Some(b'\''));
}

#[test]
fn json_is_read_as_asked() {
    let headers = parse(&[
        ("format", "json"),
        ("strip_outer_array", "true"),
        ("jsonpaths", "[\"$.a\", \"$.b.c\"]"),
        ("json_root", "$.data"),
    ]);
    let LoadFormat::Json(json) = headers.unwrap().format else { panic!("json was asked for") };
    assert!(json.strip_outer_array && !json.read_by_line);
    assert_eq!(json.paths.len(), 2);
}

#[test]
fn bad_values_are_refused_in_the_words_of_doris() {
    assert_eq!(refusal("strict_mode", "1"), "Invalid strict mode format. Must be bool type");
    assert_eq!(
        refusal("group_commit", "on"),
        "group_commit can only be [async_mode, sync_mode, off_mode]"
    );
    assert_eq!(refusal("skip_lines", "-3"), "Invalid 'skip_lines': -3");
    assert_eq!(refusal("enclose", "''"), "enclose must be single-char, actually is ''");
    assert_eq!(refusal("escape", "ab"), "escape must be single-char, actually is ab");
    assert_eq!(refusal("format", "xml"), "unknown data format, format=xml");
    assert_eq!(refusal("merge_type", "x"), "Invalid merge type x");
    assert!(refusal("timeout", "0").contains("timeout"));
    assert!(refusal("timeout", "259201").contains("timeout"));
    assert!(refusal("max_filter_ratio", "1.1").contains("max_filter_ratio"));
    assert!(refusal("max_filter_ratio", "nan").contains("max_filter_ratio"));
    assert!(refusal("timezone", "Mars/North").contains("Mars/North"));
}

#[test]
fn switches_are_true_or_false_in_any_case() {
    const SWITCHES: [&str; 14] = [
        "strict_mode",
        "group_commit_labels",
        "two_phase_commit",
        "load_to_single_tablet",
        "negative",
        "partial_columns",
        "trim_double_quotes",
        "empty_field_as_null",
        "strip_outer_array",
        "read_json_by_line",
        "num_as_string",
        "fuzzy_parse",
        "memtable_on_sink_node",
        "enable_profile",
    ];
    for name in SWITCHES {
        // Those of one format are not read with another.
        let of_json = ["strip_outer_array", "read_json_by_line", "num_as_string"].contains(&name);
        let format = ("format", if of_json { "json" } else { "csv" });
        for value in ["true", "FALSE", ""] {
            assert!(parse(&[format, (name, value)]).is_ok(), "{name}: {value}");
        }
        for value in ["1", "yes"] {
            let error = parse(&[format, (name, value)]).unwrap_err();
            let named = name.replace("strict_mode", "strict mode");
            let expected = format!("Invalid {named} format. Must be bool type");
            assert_eq!(error.message(), expected, "{name}: {value}");
        }
    }
}

#[test]
fn headers_for_tuning_are_checked_and_have_no_effect() {
    let tuned = [
        ("exec_mem_limit", "2147483648"),
        ("send_batch_parallelism", "4"),
        ("load_stream_per_node", "2"),
        ("stream_per_node", "-1"),
        ("memtable_on_sink_node", "true"),
        ("enable_profile", "true"),
    ];
    assert_eq!(parse(&tuned).unwrap(), parse(&[]).unwrap());
    for name in ["exec_mem_limit", "send_batch_parallelism", "load_stream_per_node"] {
        assert_eq!(refusal(name, "2G"), format!("Invalid {name} format: 2G"));
    }
    assert_eq!(refusal("stream_per_node", "1.5"), "Invalid stream_per_node format: 1.5");
}

#[test]
fn bodies_are_compressed_as_either_header_says() {
    let of = |pairs| parse(pairs).map(|headers| headers.compression);
    assert_eq!(of(&[]).unwrap(), None);
    assert_eq!(of(&[("content-encoding", "identity")]).unwrap(), None);
    assert_eq!(of(&[("compress_type", "GZ")]).unwrap(), Some(Compression::Gzip));
    assert_eq!(of(&[("content-encoding", "gzip")]).unwrap(), Some(Compression::Gzip));
    assert_eq!(of(&[("compress_type", "bz2")]).unwrap(), Some(Compression::Bzip2));
    assert_eq!(of(&[("compress_type", "deflate")]).unwrap(), Some(Compression::Zlib));
    assert_eq!(of(&[("compress_type", "zstd")]).unwrap(), Some(Compression::Zstd));
    assert_eq!(of(&[("compress_type", "lz4")]).unwrap(), Some(Compression::Lz4));
    assert_eq!(of(&[("compress_type", "LZ4_BLOCK")]).unwrap(), Some(Compression::Lz4Block));
    assert_eq!(of(&[("compress_type", "snappy_block")]).unwrap(), Some(Compression::SnappyBlock));
    assert!(refusal("compress_type", "rar").contains("rar"));
    let both = of(&[("compress_type", "gz"), ("content-encoding", "gzip")]);
    assert_eq!(both.unwrap(), Some(Compression::Gzip));
    let unlike = of(&[("compress_type", "gz"), ("content-encoding", "lz4")]).unwrap_err();
    assert!(unlike.message().contains("compress_type is"), "{unlike:?}");
}

#[test]
fn hidden_columns_have_an_order_unless_columns_name_all() {
    let names =
        ("hidden_columns", "__DORIS_VERSION_COL__, __doris_sequence_col__,__DORIS_DELETE_SIGN__");
    let headers = parse(&[names]).unwrap();
    assert_eq!(headers.hidden, [Hidden::Version, Hidden::Sequence, Hidden::Sign]);
    assert!(headers.has_sign);
    let headers = parse(&[names, ("columns", "a, b")]).unwrap();
    assert!(headers.hidden.is_empty() && !headers.has_sign);
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    for (name, value) in [
        ("compress_type", "lzo"),
        ("compress_type", "LZOP"),
        ("hidden_columns", "__DORIS_SEQUENCE_COL__,__DORIS_SKIP_BITMAP_COL__"),
    ] {
        assert!(refusal(name, value).contains(name), "{name}");
    }
    let twice = [("hidden_columns", "__DORIS_DELETE_SIGN__, __doris_delete_sign__")];
    assert!(parse(&twice).unwrap_err().message().contains("specified twice"));
    assert!(refusal("unique_key_update_mode", "update_flexible_columns").contains("json format"));
    let partial = |pairs: &[(&str, &str)]| parse(pairs).map(|headers| headers.partial);
    let fixed = ("unique_key_update_mode", "update_fixed_columns");
    let refuse = ("partial_update_new_key_behavior", "ERROR");
    assert_eq!(partial(&[("partial_columns", "true")]).unwrap(), Some(OnNewKey::Append));
    assert_eq!(partial(&[fixed, refuse]).unwrap(), Some(OnNewKey::Refuse));
    assert_eq!(partial(&[refuse]).unwrap(), None);
    assert!(refusal("unique_key_update_mode", "ALL").contains("must be one of"));
    assert!(refusal("partial_update_new_key_behavior", "x").contains("'APPEND' or 'ERROR'"));
    assert!(!parse(&[("two_phase_commit", "false")]).unwrap().two_phases);
    assert!(parse(&[("merge_type", "append")]).is_ok());
    let merge = refusal("merge_type", "MERGE");
    assert_eq!(merge, "Excepted DELETE ON clause when merge type is MERGE.");
    let delete = refusal("delete", "a=1");
    assert_eq!(delete, "Not support DELETE ON clause when merge type is not MERGE.");
    let both = parse(&[("partitions", "p"), ("temporary_partitions", "t")]).unwrap_err();
    assert_eq!(both.message(), "Can not specify both partitions and temporary partitions");
    assert_eq!(parse(&[("merge_type", "delete")]).unwrap().merge, MergeType::Delete);
    let merge = parse(&[("merge_type", "MERGE"), ("delete", "a = 1")]).unwrap().merge;
    assert_eq!(merge, MergeType::Merge("a = 1".to_owned()));
}
