//! `RAND(seed)`: the sequence of numbers that MySQL has for a seed. A call with a constant begins
//! it once in a statement and takes the next number for each row; another one begins anew each
//! time.

/// Both halves of the state are below this.
const MODULUS: u64 = 0x3fff_ffff;

/// The state of a sequence.
#[derive(Clone, Debug)]
pub struct Sequence {
    first: u64,
    second: u64,
}

impl Sequence {
    /// That of a seed, of which the lower 32 bits count.
    pub fn of(seed: i64) -> Self {
        let word = |value: u64| value & 0xffff_ffff;
        let seed = word(seed.cast_unsigned());
        Self {
            first: word(seed * 0x1_0001 + 55_555_555) % MODULUS,
            second: word(seed * 0x1000_0001) % MODULUS,
        }
    }

    /// The next number: at least 0 and less than 1.
    pub fn draw(&mut self) -> f64 {
        self.first = (self.first * 3 + self.second) % MODULUS;
        self.second = (self.first + self.second + 33) % MODULUS;
        let small = |value: u64| f64::from(u32::try_from(value).expect("it is below the modulus"));
        small(self.first) / small(MODULUS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_mysql() {
        let mut one = Sequence::of(1);
        let found = [one.draw(), one.draw(), one.draw()];
        assert_eq!(
            found,
            [0.405_403_537_121_977_24, 0.871_614_180_385_707_1, 0.141_860_321_296_248_9]
        );
        assert_eq!(Sequence::of(3).draw(), 0.905_769_755_976_060_1);
    }
}
