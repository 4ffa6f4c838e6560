//! Splits an array into elements while its bytes arrive, so that it is never buffered completely.

/// The byte order mark, which may stand once at the start of a document.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// What follows in the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// An element of this many bytes, followed by one byte that ends it.
    Element(usize),
    /// Undecided until more bytes arrive.
    More,
    /// The document is not an array; it must be buffered until its end.
    Other,
    /// Invalid syntax; all further input is skipped.
    Broken(&'static str),
}

/// The state of splitting an array.
#[derive(Debug, Default)]
pub(super) struct ArrayCut {
    place: Place,
    /// Number of bytes of the current element that have been examined.
    seen: usize,
    /// Nesting depth of objects and arrays in the element.
    depth: usize,
    in_text: bool,
    escaped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Place {
    #[default]
    Before,
    /// After the byte order mark.
    Marked,
    /// Between elements, or before the first, which may be missing.
    Between {
        may_end: bool,
    },
    Inside,
    Behind,
    Other,
    Broken,
}

impl ArrayCut {
    /// Returns how many bytes to skip and what follows them. `bytes` must continue where the last
    /// call ended: after its element, or where it asked for more.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, Piece) {
        let mut at = 0;
        loop {
            if self.place == Place::Inside {
                return (at, self.inside(&bytes[at..]));
            }
            match self.place {
                Place::Other => return (at, Piece::Other),
                Place::Broken => return (bytes.len(), Piece::More),
                _ => {}
            }
            let blank = bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            at += blank;
            let Some(&byte) = bytes.get(at) else { return (at, Piece::More) };
            self.place = match (self.place, byte) {
                (Place::Before | Place::Marked, b'[') => Place::Between { may_end: true },
                (Place::Before, _) if bytes[at..].starts_with(MARK) => {
                    at += MARK.len();
                    Place::Marked
                }
                (Place::Before, _) if MARK.starts_with(&bytes[at..]) => return (at, Piece::More),
                (Place::Before | Place::Marked, _) => Place::Other,
                (Place::Between { may_end: true }, b']') => Place::Behind,
                (Place::Between { .. }, b']' | b',') => {
                    return self.broken(at, "a value is missing");
                }
                (Place::Between { .. }, _) => {
                    (self.seen, self.depth) = (0, 0);
                    Place::Inside
                }
                _ => return self.broken(at, "something stands behind the array"),
            };
            at += usize::from(matches!(self.place, Place::Between { .. } | Place::Behind));
        }
    }

    /// Whether the document may end here.
    pub fn is_complete(&self) -> bool {
        matches!(self.place, Place::Before | Place::Marked | Place::Behind | Place::Broken)
    }

    /// Whether the document is not an array.
    pub fn is_other(&self) -> bool {
        self.place == Place::Other
    }

    fn inside(&mut self, bytes: &[u8]) -> Piece {
        let mut at = self.seen;
        while let Some(&byte) = bytes.get(at) {
            if self.in_text {
                if self.escaped {
                    self.escaped = false;
                } else {
                    match memchr::memchr2(b'"', b'\\', &bytes[at..]) {
                        None => at = bytes.len() - 1,
                        Some(further) => {
                            at += further;
                            (self.escaped, self.in_text) = match bytes[at] {
                                b'\\' => (true, true),
                                _ => (false, false),
                            };
                        }
                    }
                }
                at += 1;
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => self.depth -= 1,
                b',' if self.depth == 0 => {
                    self.place = Place::Between { may_end: false };
                    return Piece::Element(at);
                }
                b']' => {
                    self.place = Place::Behind;
                    return Piece::Element(at);
                }
                b'}' => return self.broken(at, "an object ends that did not begin").1,
                _ => {}
            }
            at += 1;
        }
        self.seen = at;
        Piece::More
    }

    fn broken(&mut self, at: usize, why: &'static str) -> (usize, Piece) {
        self.place = Place::Broken;
        (at, Piece::Broken(why))
    }
}
