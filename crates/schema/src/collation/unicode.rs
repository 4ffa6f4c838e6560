//! Collation elements of Unicode: first weights for letters, second ones for accents, third ones
//! for case. `ducet.txt` says what its entries mean.

use std::collections::HashMap;
use std::sync::LazyLock;

use icu_normalizer::DecomposingNormalizerBorrowed;

/// The weights of one letter, accent or sign; 0 where it has none of a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    pub first: u16,
    pub second: u16,
    pub third: u8,
}

/// The lowest second and third weights.
pub const SECOND_MIN: u16 = 0x20;
pub const THIRD_MIN: u8 = 2;

/// Code points with an entry are below; of those above, tags and selectors have no weight.
const CODES: usize = 0x2_0000;
/// The most characters with common elements.
const TOGETHER_MAX: usize = 3;

/// Where elements are: the first one, and their number in the lowest bits.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Place(u32);

const COUNT_BITS: u32 = 5;
/// Of a character that may have elements together with the next ones.
const BEGINS: u32 = 1 << 31;

impl Place {
    fn new(from: usize, count: usize) -> Self {
        assert!(count < 1 << COUNT_BITS, "a character has a few elements");
        let from = u32::try_from(from).expect("the table is short");
        Self((from << COUNT_BITS) | u32::try_from(count).expect("a few"))
    }

    fn range(self) -> std::ops::Range<usize> {
        let from = ((self.0 & !BEGINS) >> COUNT_BITS) as usize;
        from..from + (self.0 & ((1 << COUNT_BITS) - 1)) as usize
    }

    const fn is_empty(self) -> bool {
        self.0 & !BEGINS == 0
    }

    const fn begins(self) -> bool {
        self.0 & BEGINS != 0
    }
}

/// The elements of all characters that have some.
pub struct Table {
    elements: Vec<Element>,
    places: Vec<Place>,
    together: HashMap<Vec<char>, Place>,
}

pub static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("ducet.txt")));

fn number(text: &str) -> u32 {
    u32::from_str_radix(text, 16).expect("the table has hexadecimal numbers")
}

fn element(text: &str) -> Element {
    let mut levels = text.split('.');
    let mut level = |otherwise: u16| match levels.next() {
        None | Some("") => otherwise,
        Some(text) => u16::try_from(number(text)).expect("a weight has 16 bits"),
    };
    let (first, second, third) = (level(0), level(SECOND_MIN), level(THIRD_MIN.into()));
    Element { first, second, third: u8::try_from(third).expect("a third weight has 8 bits") }
}

impl Table {
    fn parse(text: &str) -> Self {
        // No character is at the place 0, which stands for none.
        let mut elements = vec![element("0.0.0")];
        let mut places = vec![Place::default(); CODES];
        let mut together = HashMap::new();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for entry in lines.flat_map(|line| line.split(' ')) {
            let (codes, of) = entry.split_once('=').expect("an entry has elements");
            let of = of.split('/').map(element).collect::<Vec<_>>();
            if codes.contains('+') {
                let signs = codes.split('+').filter_map(|code| char::from_u32(number(code)));
                let signs = signs.collect::<Vec<_>>();
                places[signs[0] as usize].0 |= BEGINS;
                together.insert(signs, Place::new(elements.len(), of.len()));
                elements.extend(of);
                continue;
            }
            let (code, count) = codes.split_once('*').unwrap_or((codes, "1"));
            let count = count.parse::<u16>().expect("a count is a decimal number");
            for at in 0..count {
                let code = number(code) as usize + usize::from(at);
                let begins = places[code].0 & BEGINS;
                places[code] = Place(Place::new(elements.len(), of.len()).0 | begins);
                let rises = |one: &Element| match one.first {
                    0 => *one,
                    first => Element { first: first + at, ..*one },
                };
                elements.extend(of.iter().map(rises));
            }
        }
        Self { elements, places, together }
    }

    /// The characters of ASCII that have other elements together with the next ones, and these.
    ///
    /// # Panics
    /// When others follow of ASCII.
    pub fn begun_by_ascii(&self) -> impl Iterator<Item = (u8, &[Element])> {
        self.together.iter().filter_map(|(signs, place)| {
            let first = u8::try_from(signs[0]).ok().filter(u8::is_ascii)?;
            assert!(!signs[1..].iter().any(char::is_ascii), "letters of ASCII stand alone");
            Some((first, &self.elements[place.range()]))
        })
    }

    /// Calls `put` with the elements of a text.
    pub fn each(&self, text: &str, mut put: impl FnMut(Element)) {
        let signs = DecomposingNormalizerBorrowed::new_nfd().normalize_iter(text.chars());
        let signs = signs.collect::<Vec<_>>();
        let mut at = 0;
        while let Some(&sign) = signs.get(at) {
            let place = self.places.get(sign as usize).copied().unwrap_or_default();
            let (place, used) = match place.begins() {
                true => self.longest(&signs[at..]).unwrap_or((place, 1)),
                false => (place, 1),
            };
            at += used;
            match place.is_empty() {
                true if matches!(sign, '\u{e0000}'..='\u{e0fff}') => {}
                true => implicit(sign).into_iter().for_each(&mut put),
                false => self.elements[place.range()].iter().copied().for_each(&mut put),
            }
        }
    }

    /// The elements of the first signs together, and how many these are.
    fn longest(&self, signs: &[char]) -> Option<(Place, usize)> {
        (2..=TOGETHER_MAX.min(signs.len()))
            .rev()
            .find_map(|count| self.together.get(&signs[..count]).map(|place| (*place, count)))
    }
}

/// The elements of a character without an entry, as of Han: by the number of the character.
fn implicit(sign: char) -> [Element; 2] {
    let code = u32::from(sign);
    let base = match code {
        0x17000..=0x18aff | 0x18d00..=0x18d8f => 0xfb00,
        0x1b170..=0x1b2ff => 0xfb01,
        0x18b00..=0x18cff => 0xfb02,
        0x4e00..=0x9fff | 0xfa0e..=0xfa29 => 0xfb40,
        0x3400..=0x4dbf | 0x20000..=0x2ebef | 0x30000..=0x3134f => 0xfb80,
        _ => 0xfbc0,
    };
    let weight = |number: u32| u16::try_from(number).expect("a weight has 16 bits");
    let (high, low) = match base {
        0xfb00..=0xfb02 => (base, (code & 0x7fff) | 0x8000),
        base => (base + (code >> 15), (code & 0x7fff) | 0x8000),
    };
    [
        Element { first: weight(high), second: SECOND_MIN, third: THIRD_MIN },
        Element { first: weight(low), second: 0, third: 0 },
    ]
}
