//! The functions of `sys`: other names of functions, and parts of the version.

use freshet_base::{Result, bail};

use super::list;

/// What a function of `sys` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfSys {
    /// The function of this name.
    Called(&'static str),
    /// The number at this place of the version.
    Version(usize),
}

/// The function with this name in lower case, as `sys.format_bytes`.
pub fn named(name: &str) -> Option<OfSys> {
    Some(match name.strip_prefix("sys.")? {
        "format_bytes" => OfSys::Called("format_bytes"),
        "format_time" => OfSys::Called("format_pico_time"),
        "version_major" => OfSys::Version(0),
        "version_minor" => OfSys::Version(1),
        "version_patch" => OfSys::Version(2),
        _ => return None,
    })
}

impl OfSys {
    /// Checks a call, as [`list::check`] does.
    ///
    /// # Errors
    /// As there.
    pub fn check(self, name: &str, arguments: usize, over: bool) -> Result<()> {
        match self {
            Self::Called(plain) => list::check(plain, arguments, over),
            Self::Version(_) if arguments > 0 => bail!(
                ParameterCount,
                "Incorrect number of arguments for FUNCTION {name}; expected 0, got {arguments}"
            ),
            Self::Version(_) => Ok(()),
        }
    }
}

/// The number at a place of a version, as in `8.0.36-x`.
pub fn part_of_version(version: &str, place: usize) -> Option<u32> {
    let numbers = version.split(|c: char| !c.is_ascii_digit());
    numbers.filter(|digits| !digits.is_empty()).nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_three_numbers() {
        let parts = |version| [0, 1, 2].map(|place| part_of_version(version, place));
        assert_eq!(parts("8.0.36-freshet-0.9"), [Some(8), Some(0), Some(36)]);
        assert_eq!(parts("8"), [Some(8), None, None]);
    }

    #[test]
    fn calls_are_checked_as_those_of_the_function_that_is_meant() {
        let errno = |name: &str, arguments| {
            let checked = named(name).unwrap().check(name, arguments, false);
            checked.map_or_else(|error| error.code().errno(), |()| 0)
        };
        assert_eq!((errno("sys.format_bytes", 1), errno("sys.format_time", 1)), (0, 0));
        assert_eq!((errno("sys.format_bytes", 2), errno("sys.version_major", 0)), (1582, 0));
        assert_eq!(errno("sys.version_minor", 1), 1582);
        assert_eq!((named("sys.now"), named("format_bytes")), (None, None));
    }
}
