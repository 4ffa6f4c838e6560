//! How rows stand in the text of a file: what ends, encloses and escapes their fields.

/// The clauses FIELDS and LINES of LOAD DATA and INTO OUTFILE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldFormat {
    /// FIELDS TERMINATED BY.
    pub separator: Vec<u8>,
    /// ENCLOSED BY.
    pub enclose: Option<u8>,
    /// OPTIONALLY: what is written encloses texts alone; read is either.
    pub encloses_texts_only: bool,
    /// ESCAPED BY.
    pub escape: Option<u8>,
    /// LINES STARTING BY.
    pub starting: Vec<u8>,
    /// LINES TERMINATED BY.
    pub delimiter: Vec<u8>,
}

impl Default for FieldFormat {
    fn default() -> Self {
        Self {
            separator: b"\t".to_vec(),
            enclose: None,
            encloses_texts_only: false,
            escape: Some(b'\\'),
            starting: Vec::new(),
            delimiter: b"\n".to_vec(),
        }
    }
}
