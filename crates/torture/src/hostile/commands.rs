//! The payloads of commands, right as a client sends them.

use rand::Rng;
use rand::rngs::StdRng;

use super::statements;

/// Types of parameters: integers, floating point, times, texts, NULL, and some that no parameter
/// has.
const TYPES: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 0xf6, 0xfc, 0xfd, 0xfe, 0xf5];

/// What a session knows of the server's state.
#[derive(Default)]
pub struct Known {
    pub has_attributes: bool,
    /// The placeholders of each statement that it prepared, by id less one.
    holes: Vec<u16>,
}

impl Known {
    /// A statement was sent to be prepared.
    pub fn prepared(&mut self, holes: u16) {
        self.holes.push(holes);
    }

    /// A statement that exists, perhaps, and its placeholders.
    pub fn statement(&self, random: &mut StdRng) -> (u32, u16) {
        match self.holes.len() {
            0 => (random.random_range(0..4), 1),
            count => {
                let at = random.random_range(0..count);
                (at as u32 + 1, self.holes[at])
            }
        }
    }
}

/// The next command of a session.
pub fn command(known: &mut Known, random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..30) {
        0..8 => with(3, &query(known, random)),
        8..12 => {
            let (sql, holes) = statements::prepared(random);
            known.prepared(holes);
            with(0x16, &sql)
        }
        12..18 => execute(known, random),
        18 => {
            let (id, holes) = known.statement(random);
            let data = "long data ".repeat(random.random_range(0..400));
            let hole = random.random_range(0..holes.max(1) + 1);
            [&[0x18][..], &id.to_le_bytes(), &hole.to_le_bytes(), data.as_bytes()].concat()
        }
        19 => {
            with(0x1c, &[known.statement(random).0, random.random_range(0..100)].map(le).concat())
        }
        20 => with(0x1a, &le(known.statement(random).0)),
        21 => with(0x19, &le(known.statement(random).0)),
        22 => {
            with(2, ["hostile", "neighbour", "missing", ""][random.random_range(0..4)].as_bytes())
        }
        23 => with(4, b"t\0%"),
        24 => with([0x09, 0x0e, 0x1f, 0x0d][random.random_range(0..4)], &[]),
        25 => with(0x1b, &[random.random_range(0..3), 0]),
        26 => with(0x0c, &le(random.random_range(0..500))),
        27 => with(0x11, &change_user(random)),
        28 => {
            with(random.random(), &(0..random.random_range(0..30)).map(|_| 7).collect::<Vec<_>>())
        }
        _ => with(3, &statements::statement(random)),
    }
}

fn with(command: u8, rest: &[u8]) -> Vec<u8> {
    [&[command], rest].concat()
}

fn le(number: u32) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

/// A text, behind attributes where the session has agreed on them.
fn query(known: &Known, random: &mut StdRng) -> Vec<u8> {
    let mut bytes = Vec::new();
    if known.has_attributes {
        // One attribute, or none.
        match random.random_range(0..4) {
            0 => bytes.extend(b"\x01\x01\x00\x01\xfd\x00\x01n\x01v"),
            _ => bytes.extend([0, 1]),
        }
    }
    bytes.extend(statements::statement(random));
    bytes
}

fn execute(known: &Known, random: &mut StdRng) -> Vec<u8> {
    let (id, holes) = known.statement(random);
    let mut bytes = with(0x17, &le(id));
    bytes.push(u8::from(super::happens(random, 20)));
    bytes.extend(le(1));
    if holes == 0 {
        return bytes;
    }
    let nulls = (0..holes.div_ceil(8)).map(|_| match super::happens(random, 15) {
        true => random.random(),
        false => 0_u8,
    });
    let nulls = nulls.collect::<Vec<_>>();
    bytes.extend(&nulls);
    let binds = super::happens(random, 85);
    bytes.push(u8::from(binds));
    let types = (0..holes).map(|_| TYPES[random.random_range(0..TYPES.len())]).collect::<Vec<_>>();
    if binds {
        bytes.extend(types.iter().flat_map(|kind| [*kind, [0, 0x80][usize::from(kind % 2 == 0)]]));
    }
    for (at, kind) in types.into_iter().enumerate() {
        if nulls[at / 8] >> (at % 8) & 1 == 0 {
            value(kind, &mut bytes, random);
        }
    }
    bytes
}

/// A value of a type, in the lengths that it may have.
fn value(kind: u8, bytes: &mut Vec<u8>, random: &mut StdRng) {
    let any = random.random::<u64>().to_le_bytes();
    match kind {
        1 => bytes.extend(&any[..1]),
        2 => bytes.extend(&any[..2]),
        3 | 4 => bytes.extend(&any[..4]),
        5 | 8 => bytes.extend(any),
        6 => {}
        7 | 10 | 12 => {
            let length = [0, 4, 7, 11][random.random_range(0..4)];
            bytes.push(length);
            let at = [0xea, 7, 11, 26, 12, 59, 59, 0x3f, 0x42, 0x0f, 0];
            bytes.extend(&at[..usize::from(length)]);
        }
        11 => {
            let length = [0, 8, 12][random.random_range(0..3)];
            bytes.push(length);
            let at = [1, 3, 0, 0, 0, 23, 1, 2, 0x3f, 0, 0, 0];
            bytes.extend(&at[..usize::from(length)]);
        }
        _ => {
            let text = ["", "7", "-1.5e3", "text", "2026-11-26 12:00:00", "{\"a\": 1}", "\u{e9}"];
            let text = text[random.random_range(0..text.len())].as_bytes();
            bytes.push(text.len() as u8);
            bytes.extend(text);
        }
    }
}

fn change_user(random: &mut StdRng) -> Vec<u8> {
    let user = ["hostile", "hostile_native", "root", "nobody"][random.random_range(0..4)];
    let mut bytes = user.as_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(b"hostile\0");
    bytes.extend([45, 0]);
    bytes.extend(b"mysql_native_password\0");
    bytes.extend(b"\x06\x02pn\x02me");
    bytes
}
