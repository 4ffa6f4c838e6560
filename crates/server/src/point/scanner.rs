//! What the texts of statements that are answered without the parser have in common.

/// A value that a column is compared with, or gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand<'a> {
    Int(i128),
    /// Text in single quotes, which has no escapes.
    Text(&'a [u8]),
    /// The placeholder with this index.
    Parameter(usize),
}

/// A column and the values that it may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compared<'a> {
    pub column: &'a [u8],
    pub values: Values,
}

/// Which values, by their indices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// Those from the first of these indices up to the second, which it does not have.
    Of(usize, usize),
    /// BETWEEN the one with this index AND the next.
    Between(usize),
}

/// The most values in a text, and the longest shape.
const OPERANDS_MAX: usize = 256;
const SHAPE_BYTES_MAX: usize = 4096;

/// Reads a text, and takes down its values and its shape: the text with `?` in place of these.
pub struct Scanner<'a> {
    sql: &'a [u8],
    at: usize,
    shape: Vec<u8>,
    /// Up to where the shape has the text.
    copied: usize,
    operands: Vec<Operand<'a>>,
    /// How many placeholders have come.
    parameters: usize,
    /// Whether a column has come with the name of a table.
    pub is_qualified: bool,
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

impl<'a> Scanner<'a> {
    pub fn new(sql: &'a [u8]) -> Self {
        let (shape, operands) = (Vec::new(), Vec::new());
        Self { sql, at: 0, shape, copied: 0, operands, parameters: 0, is_qualified: false }
    }

    /// The shape and the values, if the text ends here.
    pub fn finish(mut self) -> Option<(Vec<u8>, Vec<Operand<'a>>)> {
        let end = self.at;
        _ = self.take(b';');
        self.skip_blanks();
        if self.at < self.sql.len() {
            return None;
        }
        self.shape.extend_from_slice(&self.sql[self.copied..end]);
        (self.shape.len() <= SHAPE_BYTES_MAX).then_some((self.shape, self.operands))
    }

    /// `column = value AND column IN (values) AND column BETWEEN value AND value ..`.
    pub fn conditions(&mut self) -> Option<Vec<Compared<'a>>> {
        let mut compared = Vec::new();
        loop {
            let column = self.column()?;
            let from = self.operands.len();
            let values = if self.take(b'=').is_some() {
                Values::Of(from, self.value()? + 1)
            } else if self.word("between").is_some() {
                self.value()?;
                self.word("and")?;
                self.value()?;
                Values::Between(from)
            } else {
                self.list()?;
                Values::Of(from, self.operands.len())
            };
            compared.push(Compared { column, values });
            if self.word("and").is_none() {
                return Some(compared);
            }
        }
    }

    fn list(&mut self) -> Option<()> {
        self.word("in")?;
        self.take(b'(')?;
        loop {
            self.value()?;
            if self.take(b',').is_none() {
                return self.take(b')');
            }
        }
    }

    /// A value; returns its index.
    pub fn value(&mut self) -> Option<usize> {
        self.skip_blanks();
        self.shape.extend_from_slice(&self.sql[self.copied..self.at]);
        self.shape.push(b'?');
        let operand = self.operand()?;
        self.operands.push(operand);
        self.copied = self.at;
        (self.operands.len() <= OPERANDS_MAX).then(|| self.operands.len() - 1)
    }

    fn skip_blanks(&mut self) {
        let rest = &self.sql[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.sql.get(self.at).copied()
    }

    pub fn take(&mut self, byte: u8) -> Option<()> {
        let is_next = self.peek() == Some(byte);
        is_next.then(|| self.at += 1)
    }

    /// A word that is no quoted name.
    pub fn word(&mut self, wanted: &str) -> Option<()> {
        self.skip_blanks();
        let rest = &self.sql[self.at..];
        let length = rest.iter().take_while(|byte| is_of_name(**byte)).count();
        let is_it = rest[..length].eq_ignore_ascii_case(wanted.as_bytes());
        is_it.then(|| self.at += length)
    }

    /// The name of a function with its parenthesis, which stands right behind it.
    pub fn call(&mut self, wanted: &str) -> Option<()> {
        let from = self.at;
        let found = self.word(wanted).filter(|()| self.sql.get(self.at) == Some(&b'('));
        self.at = if found.is_some() { self.at + 1 } else { from };
        found
    }

    /// A name, and whether it is quoted. What is not ASCII is left to the parser.
    pub fn name(&mut self) -> Option<(&'a [u8], bool)> {
        if self.take(b'`').is_some() {
            let rest = &self.sql[self.at..];
            let length = rest.iter().position(|byte| *byte == b'`')?;
            let name = &rest[..length];
            self.at += length + 1;
            let is_plain = !name.is_empty() && name.is_ascii();
            // A doubled quote stands for one.
            let ends = self.sql.get(self.at) != Some(&b'`');
            return (is_plain && ends).then_some((name, true));
        }
        let rest = &self.sql[self.at..];
        let length = rest.iter().take_while(|byte| is_of_name(**byte)).count();
        let name = &rest[..length];
        let begins = name.first().is_some_and(|byte| !byte.is_ascii_digit());
        let ends = rest.get(length).is_none_or(u8::is_ascii);
        (begins && ends).then(|| {
            self.at += length;
            (name, false)
        })
    }

    /// A table with its database.
    pub fn table(&mut self) -> Option<(Option<&'a [u8]>, &'a [u8])> {
        let (first, _) = self.name()?;
        match self.take(b'.') {
            Some(()) => Some((Some(first), self.name()?.0)),
            None => Some((None, first)),
        }
    }

    /// A column, without what qualifies it.
    pub fn column(&mut self) -> Option<&'a [u8]> {
        let (mut column, _) = self.name()?;
        while self.take(b'.').is_some() {
            self.is_qualified = true;
            (column, _) = self.name()?;
        }
        Some(column)
    }

    fn operand(&mut self) -> Option<Operand<'a>> {
        match self.peek()? {
            b'?' => {
                self.at += 1;
                self.parameters += 1;
                Some(Operand::Parameter(self.parameters - 1))
            }
            b'\'' => {
                let rest = &self.sql[self.at + 1..];
                let special = |byte: &u8| matches!(byte, b'\'' | b'\\') || !byte.is_ascii();
                let length = rest.iter().position(special)?;
                self.at += 1 + length + 1;
                let text = &rest[..length];
                // Another string would go on with this one.
                let ends = rest[length] == b'\'' && !matches!(self.peek(), Some(b'\'' | b'"'));
                ends.then_some(Operand::Text(text))
            }
            byte => {
                let is_negative = byte == b'-';
                self.at += usize::from(is_negative);
                let rest = &self.sql[self.at..];
                let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let behind = rest.get(length).copied().unwrap_or(b' ');
                if length == 0 || length > 30 || is_of_name(behind) || behind == b'.' {
                    return None;
                }
                self.at += length;
                let digits = rest[..length].iter();
                let value = digits.fold(0, |value, digit| value * 10 + i128::from(digit - b'0'));
                Some(Operand::Int(if is_negative { -value } else { value }))
            }
        }
    }
}
