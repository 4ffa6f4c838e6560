//! HLL: about how many different values there were, by the HyperLogLog of their hashes. Up to
//! [`HASHES_MAX`] the hashes themselves are kept, and the number is exact.
//!
//! Flajolet et al., "HyperLogLog" (2007), with the estimator of Ertl, "New cardinality estimation
//! algorithms for HyperLogLog sketches" (2017), algorithm 6.

use super::{BadSketch, end, take};

pub(super) const EMPTY: u8 = 0x10;
const HASHES: u8 = 0x11;
const SPARSE: u8 = 0x12;
const FULL: u8 = 0x13;
/// The first bytes of all forms.
pub(super) const TAGS: std::ops::RangeInclusive<u8> = EMPTY..=FULL;
/// What the first bytes of Doris lack, whose formats are the same behind them.
const TAG_BASE: u8 = 0x10;

/// The bits of a hash that choose its register.
const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;
/// The largest value of a register: one behind the bits that are left of a hash.
const RANK_MAX: u8 = 64 - INDEX_BITS as u8 + 1;
/// More hashes become registers.
const HASHES_MAX: usize = 160;
/// Up to so many registers with a value, these alone are stored.
const SPARSE_MAX: usize = 4096;

/// About how many different values there were.
#[derive(Clone, PartialEq, Debug)]
pub struct Hll(State);

#[derive(Clone, PartialEq, Debug)]
enum State {
    /// In their order.
    Hashes(Vec<u64>),
    Registers(Box<[u8; REGISTERS]>),
}

impl Default for Hll {
    fn default() -> Self {
        Self(State::Hashes(Vec::new()))
    }
}

impl Hll {
    /// Reads a stored one.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(mut bytes: &[u8]) -> Result<Self, BadSketch> {
        let [tag] = take(&mut bytes)?;
        let mut read = Self::default();
        match tag {
            EMPTY => {}
            HASHES => {
                let [count] = take(&mut bytes)?;
                if usize::from(count) > HASHES_MAX {
                    return Err(BadSketch::Damaged("it has more hashes than an HLL keeps"));
                }
                for _ in 0..count {
                    read.insert(u64::from_le_bytes(take(&mut bytes)?));
                }
            }
            SPARSE => {
                let count = u32::from_le_bytes(take(&mut bytes)?);
                let registers = read.registers();
                for _ in 0..count {
                    let at = usize::from(u16::from_le_bytes(take(&mut bytes)?));
                    let [rank] = take(&mut bytes)?;
                    match registers.get_mut(at) {
                        Some(register) => *register = checked(rank)?,
                        None => return Err(BadSketch::Damaged("it has no such register")),
                    }
                }
            }
            FULL => {
                *read.registers() = take(&mut bytes)?;
                read.registers().iter().try_for_each(|rank| checked(*rank).map(drop))?;
            }
            _ => return Err(BadSketch::Damaged("its first byte is that of no HLL")),
        }
        end(bytes)?;
        Ok(read)
    }

    /// Appends its stored form, the same for equal ones.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            State::Hashes(hashes) if hashes.is_empty() => out.push(EMPTY),
            State::Hashes(hashes) => {
                out.extend([HASHES, hashes.len() as u8]);
                hashes.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
            }
            State::Registers(registers) => {
                let known = registers.iter().enumerate().filter(|(_, rank)| **rank > 0);
                let count = known.clone().count();
                if count > SPARSE_MAX {
                    out.push(FULL);
                    return out.extend_from_slice(&registers[..]);
                }
                out.push(SPARSE);
                out.extend_from_slice(&(count as u32).to_le_bytes());
                for (at, rank) in known {
                    out.extend_from_slice(&(at as u16).to_le_bytes());
                    out.push(*rank);
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

    /// Its form in Doris.
    pub fn to_doris(&self) -> Vec<u8> {
        let mut bytes = self.to_bytes();
        bytes[0] -= TAG_BASE;
        bytes
    }

    /// Reads the form that it has in Doris.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn of_doris(bytes: &[u8]) -> Result<Self, BadSketch> {
        match bytes.split_first() {
            Some((tag @ 0..TAG_BASE, rest)) => Self::read(&[&[tag + TAG_BASE], rest].concat()),
            _ => Err(BadSketch::Damaged("its first byte is that of no HLL")),
        }
    }

    /// About how much memory it takes.
    pub fn memory_bytes(&self) -> u64 {
        match &self.0 {
            State::Hashes(hashes) => 8 * hashes.capacity() as u64,
            State::Registers(_) => REGISTERS as u64,
        }
    }

    /// Adds the hash of a value.
    pub fn insert(&mut self, hash: u64) {
        match &mut self.0 {
            State::Hashes(hashes) => {
                let Err(at) = hashes.binary_search(&hash) else { return };
                if hashes.len() < HASHES_MAX {
                    return hashes.insert(at, hash);
                }
                add(self.registers(), hash);
            }
            State::Registers(registers) => add(registers, hash),
        }
    }

    /// Adds the values of another.
    pub fn unite(&mut self, other: &Self) {
        match &other.0 {
            State::Hashes(hashes) => hashes.iter().for_each(|hash| self.insert(*hash)),
            State::Registers(theirs) => {
                for (ours, theirs) in self.registers().iter_mut().zip(theirs.iter()) {
                    *ours = (*ours).max(*theirs);
                }
            }
        }
    }

    /// The registers, made of the hashes where these were kept so far.
    fn registers(&mut self) -> &mut [u8; REGISTERS] {
        if let State::Hashes(hashes) = &self.0 {
            let mut registers = Box::new([0; REGISTERS]);
            hashes.iter().for_each(|hash| add(&mut registers, *hash));
            self.0 = State::Registers(registers);
        }
        match &mut self.0 {
            State::Registers(registers) => registers,
            State::Hashes(_) => unreachable!("hashes have just become registers"),
        }
    }

    /// About how many different values it has seen.
    pub fn count(&self) -> u64 {
        match &self.0 {
            State::Hashes(hashes) => hashes.len() as u64,
            State::Registers(registers) => estimate(registers),
        }
    }
}

/// The register of a hash has the most zeros that follow one another in what is left of it.
fn add(registers: &mut [u8; REGISTERS], hash: u64) {
    let at = hash as usize % REGISTERS;
    let left = hash >> INDEX_BITS | 1 << (64 - INDEX_BITS);
    let rank = left.trailing_zeros() as u8 + 1;
    registers[at] = registers[at].max(rank);
}

fn checked(rank: u8) -> Result<u8, BadSketch> {
    match rank {
        0..=RANK_MAX => Ok(rank),
        _ => Err(BadSketch::Damaged("a register of it is too large")),
    }
}

fn estimate(registers: &[u8; REGISTERS]) -> u64 {
    let mut counts = [0_u32; RANK_MAX as usize + 1];
    registers.iter().for_each(|rank| counts[usize::from(*rank)] += 1);
    let (all, last) = (REGISTERS as f64, usize::from(RANK_MAX));
    let share = |rank: usize| f64::from(counts[rank]) / all;
    let highest = all * tau(1.0 - share(last));
    let ranks = (1..last).rev();
    let sum = ranks.fold(highest, |sum, rank| 0.5 * (sum + f64::from(counts[rank])));
    let sum = sum + all * sigma(share(0));
    (all * all / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
}

/// The part of registers without a value.
fn sigma(share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// The part of registers with the largest value.
fn tau(share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root).powi(2) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}
