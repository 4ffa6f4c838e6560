//! The JSON reply of a stream load, field by field as in Doris.

use std::fmt::Write;
use std::time::Duration;

use freshet_base::{Error, ErrorCode, TxnId};

/// The status of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// Its rows are committed.
    Success,
    /// None of its rows are committed.
    Fail,
    /// Another load has the label; the state of that load.
    LabelAlreadyExists(&'static str),
}

impl Status {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Fail => "Fail",
            Self::LabelAlreadyExists(_) => "Label Already Exists",
        }
    }
}

/// How long the phases of a load took.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Times {
    pub total: Duration,
    /// Until the body was first read.
    pub plan: Duration,
    /// Waiting for the body.
    pub read: Duration,
    /// From the first wait for the body to its end.
    pub receive: Duration,
    /// From the append to the log to the acknowledgement.
    pub commit: Duration,
}

/// The reply of a stream load.
#[derive(Clone, Debug)]
pub(super) struct LoadReply {
    pub txn: Option<TxnId>,
    pub label: String,
    pub comment: String,
    /// Whether the load shares a commit group.
    pub grouped: bool,
    /// What is to be said of its group commit mode; a member that Doris has not.
    pub note: Option<String>,
    /// Whether it was to wait for its commit.
    pub two_phases: bool,
    pub status: Status,
    pub message: String,
    pub rows_total: u64,
    pub rows_filtered: u64,
    pub rows_unselected: u64,
    pub rows_loaded: u64,
    /// The size of the body as received.
    pub body_bytes: u64,
    pub times: Times,
    pub error_url: Option<String>,
    pub first_error: Option<String>,
}

impl LoadReply {
    /// The reply as JSON, with the field order and indentation of Doris.
    pub(super) fn render(&self) -> String {
        let mut json = Object::new();
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let count = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        json.int("TxnId", self.txn.map_or(-1, |txn| count(txn.get())));
        json.text("Label", &self.label);
        json.text("Comment", &self.comment);
        if self.grouped {
            json.raw("GroupCommit", "true");
        } else {
            json.text("TwoPhaseCommit", if self.two_phases { "true" } else { "false" });
        }
        json.text("Status", self.status.name());
        if let Status::LabelAlreadyExists(existing) = &self.status {
            json.text("ExistingJobStatus", existing);
        }
        json.text("Message", &self.message);
        json.int("NumberTotalRows", count(self.rows_total));
        json.int("NumberLoadedRows", count(self.rows_loaded));
        json.int("NumberFilteredRows", count(self.rows_filtered));
        json.int("NumberUnselectedRows", count(self.rows_unselected));
        json.int("LoadBytes", count(self.body_bytes));
        let times = &self.times;
        json.int("LoadTimeMs", millis(times.total));
        if !self.grouped {
            json.int("BeginTxnTimeMs", 0);
        }
        json.int("StreamLoadPutTimeMs", millis(times.plan));
        json.int("ReadDataTimeMs", millis(times.read));
        let write = times.total.saturating_sub(times.plan + times.read);
        json.int("WriteDataTimeMs", millis(write));
        if !self.grouped {
            // The reply of a group is that of the documents on group commit.
            json.int("ReceiveDataTimeMs", millis(times.receive));
            json.int("CommitAndPublishTimeMs", millis(times.commit));
        }
        if let Some(note) = &self.note {
            json.text("GroupCommitNote", note);
        }
        if let Some(url) = &self.error_url {
            json.text("ErrorURL", url);
        }
        if let Some(reason) = &self.first_error {
            json.text("FirstErrorMsg", reason);
        }
        json.end()
    }
}

/// The message of a failed load: `[CODE]text`.
pub(super) fn message(error: &Error) -> String {
    format!("[{}]{}", code_name(error.code()), error.message())
}

fn code_name(code: ErrorCode) -> &'static str {
    use ErrorCode as E;
    match code {
        E::WrongArguments => "INVALID_ARGUMENT",
        E::NotSupported => "NOT_IMPLEMENTED_ERROR",
        E::UnknownDatabase
        | E::NoSuchTable
        | E::NoDatabase
        | E::UnknownColumn
        | E::AmbiguousColumn
        | E::ColumnTwice
        | E::ColumnCount
        | E::NoDefault
        | E::Syntax
        | E::UnknownFunction
        | E::WrongGroupFunction
        | E::NotGrouped
        | E::MixOfGroups
        | E::UnknownPartition
        | E::PartitionClause => "ANALYSIS_ERROR",
        E::LabelUsed => "LABEL_ALREADY_EXISTS",
        E::AccessDenied | E::AccessDeniedDatabase | E::TableAccessDenied | E::PrivilegeMissing => {
            "NOT_AUTHORIZED"
        }
        E::TooManyFiltered | E::WrongValue | E::TooLong => "DATA_QUALITY_ERROR",
        E::OutOfRoom => "MEM_LIMIT_EXCEEDED",
        E::DiskFull => "DISK_REACH_CAPACITY_LIMIT",
        E::QueryTimeout => "TIMEOUT",
        _ => "INTERNAL_ERROR",
    }
}

/// A JSON object with one member per line, indented by four spaces.
struct Object(String);

impl Object {
    fn new() -> Self {
        let mut text = String::with_capacity(640);
        text.push('{');
        Self(text)
    }

    fn raw(&mut self, name: &str, value: &str) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        write!(self.0, "{comma}\n    \"{name}\": {value}").expect("a String takes all text");
    }

    fn int(&mut self, name: &str, value: i64) {
        self.raw(name, &value.to_string());
    }

    fn text(&mut self, name: &str, value: &str) {
        let value = serde_json::to_string(value).expect("text is JSON");
        self.raw(name, &value);
    }

    fn end(mut self) -> String {
        self.0.push_str("\n}\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply() -> LoadReply {
        LoadReply {
            txn: Some(TxnId(7009)),
            label: "group_commit_c84d2099208436ab_96e33fda01eddba8".to_owned(),
            comment: String::new(),
            grouped: true,
            note: None,
            two_phases: false,
            status: Status::Success,
            message: "OK".to_owned(),
            rows_total: 2,
            rows_filtered: 0,
            rows_unselected: 0,
            rows_loaded: 2,
            body_bytes: 19,
            times: Times {
                total: Duration::from_millis(35),
                plan: Duration::from_millis(5),
                read: Duration::ZERO,
                receive: Duration::from_millis(3),
                commit: Duration::from_millis(9),
            },
            error_url: None,
            first_error: None,
        }
    }

    #[test]
    fn a_grouped_load_answers_as_documented() {
        let expected = r#"{
    "TxnId": 7009,
    "Label": "group_commit_c84d2099208436ab_96e33fda01eddba8",
    "Comment": "",
    "GroupCommit": true,
    "Status": "Success",
    "Message": "OK",
    "NumberTotalRows": 2,
    "NumberLoadedRows": 2,
    "NumberFilteredRows": 0,
    "NumberUnselectedRows": 0,
    "LoadBytes": 19,
    "LoadTimeMs": 35,
    "StreamLoadPutTimeMs": 5,
    "ReadDataTimeMs": 0,
    "WriteDataTimeMs": 30
}
"#;
        assert_eq!(reply().render(), expected);
    }

    #[test]
    fn a_load_alone_tells_of_its_transaction_and_its_errors() {
        let text = LoadReply {
            txn: None,
            grouped: false,
            note: Some("it has a label".to_owned()),
            status: Status::LabelAlreadyExists("FINISHED"),
            message: "a \"b\"\n".to_owned(),
            error_url: Some("http://h/x".to_owned()),
            first_error: Some("why".to_owned()),
            ..reply()
        }
        .render();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["TxnId"], -1);
        assert_eq!(value["TwoPhaseCommit"], "false");
        assert_eq!(value["ExistingJobStatus"], "FINISHED");
        assert_eq!(value["Message"], "a \"b\"\n");
        assert_eq!(
            (&value["ReceiveDataTimeMs"], &value["CommitAndPublishTimeMs"]),
            (&3.into(), &9.into())
        );
        assert_eq!(value["GroupCommitNote"], "it has a label");
        assert_eq!(
            (&value["ErrorURL"], &value["FirstErrorMsg"]),
            (&"http://h/x".into(), &"why".into())
        );
        assert!(value.get("GroupCommit").is_none());
    }
}
