//! Command lines as those of Batch Tool, the tool of PolarDB-X for files.
//!
//! Its long names have one dash. Read as short options some would mean another thing (`-pre x` a
//! password), so each is either translated or refused by name.

use std::ffi::OsString;

/// Names of Batch Tool, and the options that they mean.
const SAME: [(&str, &str); 16] = [
    ("-pro", "--readers"),
    ("-con", "--parallel"),
    ("-quote", "--quote"),
    ("-DDL", "--ddl"),
    ("-dropTableIfExists", "--drop-table"),
    ("-withView", "--with-views"),
    ("-OC", "--order-by"),
    ("-tps", "--rows-per-second"),
    ("-readsize", "--block-size"),
    ("-header", "--header"),
    ("-nullStr", "--null"),
    ("-comp", "--compression"),
    ("-maxError", "--max-errors"),
    ("-format", "--format"),
    ("-col", "--columns"),
    ("-help", "--help"),
];

const CONNECTIONS: &str = "--parallel says how many connections there are";
const BLOCKS: &str = "--block-size says how much goes at a time";
const SERVER: &str = "the server divides and sorts rows, see --order-by";
const MASKED: &str = "SELECT .. INTO OUTFILE writes what expressions make of the columns";
const PIPE: &str =
    "another program does that, with - for standard input, and dump to standard output";

/// Names of Batch Tool that mean nothing here, and what there is instead.
const OTHERS: [(&str, &str); 37] = [
    ("-i", "a row is loaded once, whatever happens: run the same command again"),
    ("-v", "see freshet --version"),
    ("-lb", "name one server by --host; what fails is tried again for --retry-for seconds"),
    ("-param", "see --tls-ca for TLS"),
    ("-initSqls", "set variables for all sessions by SET GLOBAL"),
    ("-minConn", CONNECTIONS),
    ("-maxConn", CONNECTIONS),
    ("-maxWait", "see --retry-for"),
    ("-O", "write the direction behind the columns: --order-by 'a DESC'"),
    ("-local", SERVER),
    ("-para", SERVER),
    ("-part", SERVER),
    ("-sharding", SERVER),
    ("-pre", "name the files by a pattern in quotes: 'dir/orders*.csv'"),
    ("-lastSep", "pass over an empty last field by --columns a,b,@rest"),
    ("-cs", "texts are UTF-8; convert files by iconv"),
    ("-trimRight", "load, then UPDATE t SET c = RTRIM(c)"),
    ("-hex", "bytes that are no text are always 0x and hexadecimal digits"),
    ("-noEsc", "see --enclose and --escape"),
    ("-encrypt", PIPE),
    ("-key", PIPE),
    ("-fs", PIPE),
    ("-ddlRetry", "run the same command again: tables that are there stay"),
    ("-ddlParallelism", "definitions run one after the other"),
    ("-batchsize", BLOCKS),
    ("-batchBytes", BLOCKS),
    ("-ringsize", "--readers, --parallel and --block-size say how much memory is used"),
    ("-perf", "the progress tells how fast it goes"),
    ("-rfonly", "--dry-run reads and checks all rows and loads none"),
    ("-logInterval", "the progress is shown all the time, or never with --quiet"),
    ("-mask", MASKED),
    ("-func", MASKED),
    ("-in", "rows are changed by UPDATE and DELETE of SQL"),
    ("-where", "the condition of a dump is -w or --where"),
    ("-config", "options stand in the command line"),
    ("-benchmark", "rows of TPC-H are made by its own generator"),
    ("-scale", "rows of TPC-H are made by its own generator"),
];

const OPERATIONS: [&str; 4] = ["export", "import", "update", "delete"];

/// The words of a command line with the names of Batch Tool replaced by options.
///
/// # Errors
/// A name that means nothing here, with what there is instead; `-f` and `-dir` without a value.
pub fn translated(words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, String> {
    let words = words.collect::<Vec<_>>();
    let is_load = match words.get(1).and_then(|command| command.to_str()) {
        Some("load") => true,
        Some("dump") => false,
        _ => return Ok(words),
    };
    let (mut ours, mut rest) = (words[..2].to_vec(), words[2..].iter());
    while let Some(word) = rest.next() {
        let name = word.to_str().unwrap_or_default();
        let next = rest.as_slice().first();
        match (name, next) {
            ("-f" | "-dir", _) if is_load => match rest.next() {
                Some(files) => ours.extend(inputs(name, files)),
                None => return Err(format!("{name} of Batch Tool needs the name of a file")),
            },
            ("-dir", _) => ours.push("--output".into()),
            ("-o", Some(next)) if is_load && OPERATIONS.iter().any(|known| next == known) => {
                return Err(format!(
                    "-o {} of Batch Tool: the operation is the command here, freshet load or \
                     freshet dump; rows are changed by UPDATE and DELETE of SQL",
                    next.to_string_lossy()
                ));
            }
            _ => ours.push(match SAME.iter().find(|(same, _)| *same == name) {
                Some((_, option)) => (*option).into(),
                None => known(name).map(|()| word.clone())?,
            }),
        }
    }
    Ok(ours)
}

/// The files of `-f "a;b"`, or the directory of `-dir`.
fn inputs(name: &str, files: &OsString) -> Vec<OsString> {
    match files.to_str() {
        Some(text) if name == "-f" => text.split(';').map(OsString::from).collect(),
        _ => vec![files.clone()],
    }
}

fn known(name: &str) -> Result<(), String> {
    match OTHERS.iter().find(|(other, _)| *other == name) {
        Some((_, instead)) => Err(format!("{name} of Batch Tool is no option here: {instead}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<String, String> {
        let words = translated(line.split(' ').map(OsString::from))?;
        Ok(words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn names_that_mean_an_option_become_it() {
        let load = of("freshet load -D d -t t -f a.csv;b.csv -con 3 -nullStr x");
        assert_eq!(load.unwrap(), "freshet load -D d -t t a.csv b.csv --parallel 3 --null x");
        assert_eq!(of("freshet load -D d -dir x;y").unwrap(), "freshet load -D d x;y");
        let dump = of("freshet dump -dir out -OC a -F 2 -p secret");
        assert_eq!(dump.unwrap(), "freshet dump --output out --order-by a -F 2 -p secret");
        assert_eq!(of("freshet server -dir x -pre y").unwrap(), "freshet server -dir x -pre y");
        assert_eq!(of("freshet dump -o out").unwrap(), "freshet dump -o out");
    }

    #[test]
    fn names_that_would_mean_another_thing_are_refused() {
        for (name, _) in OTHERS {
            let error = of(&format!("freshet load {name} x")).unwrap_err();
            assert!(error.starts_with(&format!("{name} of Batch Tool is no option")), "{error}");
            assert!(SAME.iter().all(|(same, _)| *same != name), "{name} is both");
        }
        assert!(of("freshet load -o import").unwrap_err().contains("the operation"));
        assert_eq!(of("freshet dump -o export").unwrap(), "freshet dump -o export");
        assert!(of("freshet load -o import -f a").unwrap_err().contains("the operation"));
        assert!(of("freshet load -D d -f").unwrap_err().contains("needs the name"));
    }
}
