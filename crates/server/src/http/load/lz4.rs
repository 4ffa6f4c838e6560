//! Unpacks frames of LZ4 as they arrive, block by block. A block has at most 4 MiB.

use std::hash::Hasher;
use std::io;

use lz4_flex::block::decompress_into_with_dict;
use twox_hash::XxHash32;

const MAGIC: u32 = 0x184d_2204;
/// Frames to be skipped have one of sixteen magic numbers.
const MAGIC_SKIPPED: u32 = 0x184d_2a50;
/// How far blocks refer to those before them.
const HISTORY_BYTES: usize = 64 << 10;
/// Marks a block that is stored as it is.
const PLAIN: u32 = 1 << 31;

/// What the next bytes of a frame are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Magic,
    /// Flags and the size of blocks.
    Flags,
    /// The rest of the head: sizes, the id of a dictionary, its checksum.
    Head,
    BlockSize,
    Block {
        is_plain: bool,
    },
    /// Behind the last block.
    Checksum,
    SkippedSize,
    Skipped,
    /// The frame has ended.
    End,
}

/// The flags of a frame.
#[derive(Clone, Copy, Default)]
struct Flags {
    are_linked: bool,
    has_block_checksums: bool,
    has_size: bool,
    has_checksum: bool,
    has_dictionary: bool,
}

/// One frame.
pub(super) struct Lz4Frame {
    unit: Unit,
    /// Of the unit, what has arrived, and how much it has.
    gathered: Vec<u8>,
    wanted: usize,
    flags: Flags,
    /// What the checksum of the head is of.
    head: Vec<u8>,
    block_bytes_max: usize,
    /// The unpacked block, and how much of it was passed on.
    block: Vec<u8>,
    passed: usize,
    /// What stands before the block, as far as it may refer to it.
    history: Vec<u8>,
    hash: XxHash32,
}

impl Lz4Frame {
    pub fn new() -> Self {
        Self {
            unit: Unit::Magic,
            gathered: Vec::new(),
            wanted: 4,
            flags: Flags::default(),
            head: Vec::new(),
            block_bytes_max: 0,
            block: Vec::new(),
            passed: 0,
            history: Vec::new(),
            hash: XxHash32::with_seed(0),
        }
    }

    /// Unpacks into the room of `out`: how much was read, and whether the frame has ended.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<(usize, bool)> {
        let mut read = 0;
        loop {
            if !pass(&self.block, &mut self.passed, out) {
                return Ok((read, false));
            }
            if self.unit == Unit::End {
                return Ok((read, true));
            }
            let missing = self.wanted - self.gathered.len();
            let taken = missing.min(input.len() - read);
            match self.unit {
                Unit::Skipped => self.wanted -= taken,
                _ => self.gathered.extend_from_slice(&input[read..read + taken]),
            }
            read += taken;
            if taken < missing {
                return Ok((read, false));
            }
            let bytes = std::mem::take(&mut self.gathered);
            self.take(&bytes)?;
        }
    }

    fn expect(&mut self, unit: Unit, bytes: usize) {
        (self.unit, self.wanted) = (unit, bytes);
    }

    /// Takes a whole unit, and says what comes next.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.unit {
            Unit::Magic => match number(bytes) {
                MAGIC => self.expect(Unit::Flags, 2),
                other if other & !0xf == MAGIC_SKIPPED => self.expect(Unit::SkippedSize, 4),
                _ => return Err(bad("it does not begin with a frame of LZ4")),
            },
            Unit::Flags => self.take_flags(bytes)?,
            Unit::Head => {
                let (rest, checksum) = bytes.split_at(bytes.len() - 1);
                self.head.extend_from_slice(rest);
                if XxHash32::oneshot(0, &self.head).to_le_bytes()[1] != checksum[0] {
                    return Err(bad("the head of a frame has another checksum"));
                }
                self.expect(Unit::BlockSize, 4);
            }
            Unit::BlockSize => match number(bytes) {
                0 if self.flags.has_checksum => self.expect(Unit::Checksum, 4),
                0 => self.expect(Unit::End, 0),
                size => {
                    let (is_plain, size) = (size & PLAIN != 0, (size & !PLAIN) as usize);
                    if size > self.block_bytes_max {
                        return Err(bad("a block is larger than its frame says"));
                    }
                    let checksum = if self.flags.has_block_checksums { 4 } else { 0 };
                    self.expect(Unit::Block { is_plain }, size + checksum);
                }
            },
            Unit::Block { is_plain } => {
                self.take_block(bytes, is_plain)?;
                self.expect(Unit::BlockSize, 4);
            }
            Unit::Checksum if number(bytes) != self.hash.finish_32() => {
                return Err(bad("the content of a frame has another checksum"));
            }
            Unit::SkippedSize => self.expect(Unit::Skipped, number(bytes) as usize),
            Unit::Checksum | Unit::Skipped | Unit::End => self.expect(Unit::End, 0),
        }
        Ok(())
    }

    fn take_flags(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (flags, sizes) = (bytes[0], bytes[1]);
        if flags >> 6 != 1 {
            return Err(bad("a frame is of an unknown version"));
        }
        self.flags = Flags {
            are_linked: flags & 0x20 == 0,
            has_block_checksums: flags & 0x10 != 0,
            has_size: flags & 0x08 != 0,
            has_checksum: flags & 0x04 != 0,
            has_dictionary: flags & 0x01 != 0,
        };
        if self.flags.has_dictionary {
            return Err(bad("a frame needs a dictionary"));
        }
        self.block_bytes_max = match sizes >> 4 & 7 {
            size @ 4..=7 => 1 << (8 + 2 * size),
            _ => return Err(bad("a frame has blocks of an unknown size")),
        };
        self.head.extend_from_slice(bytes);
        self.expect(Unit::Head, if self.flags.has_size { 9 } else { 1 });
        Ok(())
    }

    fn take_block(&mut self, bytes: &[u8], is_plain: bool) -> io::Result<()> {
        let checksum = if self.flags.has_block_checksums { 4 } else { 0 };
        let (packed, checksum) = bytes.split_at(bytes.len() - checksum);
        if !checksum.is_empty() && number(checksum) != XxHash32::oneshot(0, packed) {
            return Err(bad("a block has another checksum"));
        }
        let before = std::mem::take(&mut self.block);
        if self.flags.are_linked {
            self.history.extend_from_slice(&before);
            let old = self.history.len().saturating_sub(HISTORY_BYTES);
            self.history.drain(..old);
        }
        self.passed = 0;
        self.block = before;
        self.block.clear();
        if is_plain {
            self.block.extend_from_slice(packed);
        } else {
            self.block.resize(self.block_bytes_max, 0);
            let unpacked = decompress_into_with_dict(packed, &mut self.block, &self.history);
            let unpacked = unpacked.map_err(|error| bad(&error.to_string()))?;
            self.block.truncate(unpacked);
        }
        self.hash.write(&self.block);
        Ok(())
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("a number has four bytes"))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Copies what is unpacked into the room of `out`, from `passed` on. Returns whether that was all.
pub(super) fn pass(unpacked: &[u8], passed: &mut usize, out: &mut Vec<u8>) -> bool {
    let room = out.capacity() - out.len();
    let next = room.min(unpacked.len() - *passed);
    out.extend_from_slice(&unpacked[*passed..*passed + next]);
    *passed += next;
    *passed == unpacked.len()
}
