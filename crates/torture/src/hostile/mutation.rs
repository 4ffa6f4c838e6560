//! What goes wrong on the way from a right command to the bytes that are sent.

use rand::Rng;
use rand::rngs::StdRng;

/// Bytes that stand for something in lengths, strings and headers.
const TELLING: [u8; 10] = [0, 1, 0x7f, 0x80, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff];
/// What a length of two or four bytes may become.
const LENGTHS: [u32; 8] = [0, 1, 0x7fff, 0xffff, 0x00ff_ffff, 0x7fff_ffff, 0xffff_fffe, u32::MAX];

/// Changes some bytes of a payload, or how many there are.
pub fn payload(payload: &mut Vec<u8>, random: &mut StdRng) {
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=payload.len());
        match random.random_range(0..9) {
            0 if at < payload.len() => payload[at] ^= 1 << random.random_range(0..8),
            1 if at < payload.len() => payload[at] = TELLING[random.random_range(0..10)],
            2 => payload.truncate(at),
            3 => {
                let more = (0..random.random_range(1..40)).map(|_| random.random());
                payload.extend(more.collect::<Vec<u8>>());
            }
            4 => {
                let length = LENGTHS[random.random_range(0..8)].to_le_bytes();
                let end = payload.len().min(at + [2, 4][random.random_range(0..2)]);
                let count = end - at;
                payload[at..end].copy_from_slice(&length[..count]);
            }
            5 => {
                let piece = payload[at..].iter().take(30).copied().collect::<Vec<_>>();
                payload.splice(at..at, piece);
            }
            6 => {
                let end = payload.len().min(at + random.random_range(1..9));
                payload.drain(at..end);
            }
            7 => payload.insert(at, TELLING[random.random_range(0..10)]),
            _ => payload.insert(at, random.random()),
        }
    }
}

/// Frames a payload with a length or a sequence that is not its own, or leaves out its end.
pub fn framed(payload: &[u8], sequence: u8, random: &mut StdRng) -> Vec<u8> {
    let length = payload.len() as u32;
    let (length, sequence) = match random.random_range(0..6) {
        0 => (length.saturating_sub(random.random_range(1..9)), sequence),
        1 => (length + random.random_range(1..2000), sequence),
        2 => (0x00ff_ffff, sequence),
        3 => (length, random.random()),
        4 => (0, sequence),
        _ => (length, sequence),
    };
    let mut bytes = length.to_le_bytes()[..3].to_vec();
    bytes.push(sequence);
    bytes.extend(payload);
    if random.random() {
        bytes.truncate(random.random_range(0..=bytes.len()));
    }
    bytes
}

/// Frames a payload as it should be.
pub fn right(payload: &[u8], mut sequence: u8) -> Vec<u8> {
    const FRAME_BYTES_MAX: usize = 0x00ff_ffff;
    let mut bytes = Vec::with_capacity(payload.len() + 4);
    let mut rest = payload;
    loop {
        let (frame, after) = rest.split_at(rest.len().min(FRAME_BYTES_MAX));
        bytes.extend(&(frame.len() as u32).to_le_bytes()[..3]);
        bytes.push(sequence);
        bytes.extend(frame);
        if frame.len() < FRAME_BYTES_MAX {
            return bytes;
        }
        sequence = sequence.wrapping_add(1);
        rest = after;
    }
}
