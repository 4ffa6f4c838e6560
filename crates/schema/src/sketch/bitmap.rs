//! BITMAP: a set of unsigned 64-bit numbers, compressed (Roaring).

use roaring::{RoaringBitmap, RoaringTreemap};

use super::{BadSketch, end, take};

pub(super) const EMPTY: u8 = 0;
const ONE_OF_32_BITS: u8 = 1;
const OF_32_BITS: u8 = 2;
const ONE_OF_64_BITS: u8 = 3;
const OF_64_BITS: u8 = 4;
/// Read, and never written: up to 255 numbers.
const FEW: u8 = 5;
/// The first bytes of all forms.
pub(super) const TAGS: std::ops::RangeInclusive<u8> = EMPTY..=FEW;

/// The most that one from outside may take in memory.
const MEMORY_BYTES_MAX: u64 = 128 << 20;
/// What a map of 32 bits, and a container in it, take beside their values.
const MAP_BYTES: u64 = 64;
const CONTAINER_BYTES: u64 = 48;
/// A container in its largest form.
const FULL_CONTAINER_BYTES: u64 = 8 << 10;

/// A set of numbers.
#[derive(Clone, Default, Debug)]
pub struct Bitmap(RoaringTreemap);

impl Bitmap {
    /// Reads one from outside, of which a few bytes may stand for a lot.
    ///
    /// # Errors
    /// When the bytes are none, or it takes too much memory.
    pub fn of_doris(bytes: &[u8]) -> Result<Self, BadSketch> {
        let read = Self::read(bytes)?;
        match read.memory_bytes() {
            bytes if bytes > MEMORY_BYTES_MAX => {
                Err(BadSketch::TooLarge { bytes, limit: MEMORY_BYTES_MAX })
            }
            _ => Ok(read),
        }
    }

    /// Reads a stored one.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(mut bytes: &[u8]) -> Result<Self, BadSketch> {
        let [tag] = take(&mut bytes)?;
        let set = match tag {
            EMPTY => RoaringTreemap::new(),
            ONE_OF_32_BITS => one(u32::from_le_bytes(take(&mut bytes)?).into()),
            ONE_OF_64_BITS => one(u64::from_le_bytes(take(&mut bytes)?)),
            OF_32_BITS => RoaringTreemap::from_bitmaps([(0, part(&mut bytes)?)]),
            OF_64_BITS => parts(&mut bytes)?,
            FEW => {
                let [count] = take(&mut bytes)?;
                let numbers = (0..count).map(|_| take(&mut bytes).map(u64::from_le_bytes));
                numbers.collect::<Result<_, _>>()?
            }
            _ => return Err(BadSketch::Damaged("its first byte is that of no BITMAP")),
        };
        end(bytes)?;
        Ok(Self(set))
    }

    /// Appends its stored form.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut set = self.0.clone();
        set.optimize();
        let mut maps = set.bitmaps();
        match (set.len(), set.max()) {
            (0, _) => out.push(EMPTY),
            (1, Some(number)) => match u32::try_from(number) {
                Ok(number) => {
                    out.push(ONE_OF_32_BITS);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                Err(_) => {
                    out.push(ONE_OF_64_BITS);
                    out.extend_from_slice(&number.to_le_bytes());
                }
            },
            (_, Some(..=0xffff_ffff)) => {
                out.push(OF_32_BITS);
                let (_, map) = maps.next().expect("a set with numbers has a map");
                put(map, out);
            }
            _ => {
                out.push(OF_64_BITS);
                put_count(set.bitmaps().count() as u64, out);
                for (high, map) in maps {
                    out.extend_from_slice(&high.to_le_bytes());
                    put(map, out);
                }
            }
        }
    }

    /// Its stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// The most memory that it takes, in whatever form its numbers are.
    pub fn memory_bytes(&self) -> u64 {
        let of_map = |(_, map): (u32, &RoaringBitmap)| {
            let parts = map.statistics();
            let full = u64::from(parts.n_run_containers + parts.n_bitset_containers);
            MAP_BYTES
                + u64::from(parts.n_containers) * CONTAINER_BYTES
                + full * FULL_CONTAINER_BYTES
                + 2 * u64::from(parts.n_values_array_containers)
        };
        self.0.bitmaps().map(of_map).sum()
    }

    pub fn insert(&mut self, number: u64) {
        self.0.insert(number);
    }

    pub fn unite(&mut self, other: &Self) {
        self.0 |= &other.0;
    }

    pub fn intersect(&mut self, other: &Self) {
        self.0 &= &other.0;
    }

    /// Keeps the numbers that only one of both has.
    pub fn differ(&mut self, other: &Self) {
        self.0 ^= &other.0;
    }

    /// Keeps the numbers that `other` lacks.
    pub fn subtract(&mut self, other: &Self) {
        self.0 -= &other.0;
    }

    /// How many numbers it has.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn contains(&self, number: u64) -> bool {
        self.0.contains(number)
    }

    /// Whether both have a number.
    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// Whether it has all numbers of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.is_subset(&self.0)
    }

    pub fn min(&self) -> Option<u64> {
        self.0.min()
    }

    pub fn max(&self) -> Option<u64> {
        self.0.max()
    }

    /// The numbers in their order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter()
    }

    /// Keeps the numbers from `first` to before `end`.
    pub fn keep(&mut self, first: u64, end: u64) {
        self.0.remove_range(..first);
        self.0.remove_range(end.max(first)..);
    }

    /// Keeps `count` numbers behind the first `skipped`.
    pub fn keep_places(&mut self, skipped: u64, count: u64) {
        let first = self.0.select(skipped);
        let end = skipped.checked_add(count).and_then(|end| self.0.select(end));
        match first {
            None => self.0.clear(),
            Some(first) => {
                self.0.remove_range(..first);
                if let Some(end) = end {
                    self.0.remove_range(end..);
                }
            }
        }
    }
}

impl FromIterator<u64> for Bitmap {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

fn one(number: u64) -> RoaringTreemap {
    RoaringTreemap::from_iter([number])
}

/// Reads a map of 32 bits in the portable format of Roaring bitmaps.
fn part(bytes: &mut &[u8]) -> Result<RoaringBitmap, BadSketch> {
    let damaged = |_| BadSketch::Damaged("a map of it is no Roaring bitmap");
    RoaringBitmap::deserialize_from(bytes).map_err(damaged)
}

fn parts(bytes: &mut &[u8]) -> Result<RoaringTreemap, BadSketch> {
    let count = take_count(bytes)?;
    let (mut maps, mut last) = (Vec::new(), None);
    for _ in 0..count {
        let high = u32::from_le_bytes(take(bytes)?);
        if last.replace(high).is_some_and(|last| last >= high) {
            return Err(BadSketch::Damaged("its maps are not in their order"));
        }
        maps.push((high, part(bytes)?));
    }
    Ok(RoaringTreemap::from_bitmaps(maps))
}

fn put(map: &RoaringBitmap, out: &mut Vec<u8>) {
    map.serialize_into(out).expect("a vector takes all that is written");
}

/// Appends a number in groups of seven bits, the lowest first.
fn put_count(mut count: u64, out: &mut Vec<u8>) {
    while count >= 0x80 {
        out.push(count as u8 | 0x80);
        count >>= 7;
    }
    out.push(count as u8);
}

fn take_count(bytes: &mut &[u8]) -> Result<u64, BadSketch> {
    let mut count = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes)?;
        count |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(count);
        }
    }
    Err(BadSketch::Damaged("the number of its maps is too long"))
}
