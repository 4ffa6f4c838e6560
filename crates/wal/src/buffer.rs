//! Buffers aligned for direct writes.

use freshet_base::io::DIRECT_ALIGN_BYTES;

/// A buffer of fixed capacity, aligned to [`DIRECT_ALIGN_BYTES`]; it is reused and never grows.
pub(crate) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    capacity: usize,
    len: usize,
}

impl AlignedBuffer {
    /// An empty buffer; `capacity` is a multiple of the alignment.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity.is_multiple_of(DIRECT_ALIGN_BYTES), "a buffer holds whole blocks");
        let memory = vec![0; capacity + DIRECT_ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(DIRECT_ALIGN_BYTES);
        assert!(start <= DIRECT_ALIGN_BYTES, "an aligned start lies within the slack");
        Self { memory, start, capacity, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn left(&self) -> usize {
        self.capacity - self.len
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends `bytes`, which must fit.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let at = self.start + self.len;
        assert!(bytes.len() <= self.left(), "a buffer is never grown");
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Overwrites the beginning with `bytes`.
    pub(crate) fn overwrite(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "only what is there is written over");
        self.memory[self.start..self.start + bytes.len()].copy_from_slice(bytes);
    }

    /// Appends zeros, which must fit.
    pub(crate) fn push_zeros(&mut self, count: usize) {
        let at = self.start + self.len;
        assert!(count <= self.left(), "a buffer is never grown");
        self.memory[at..at + count].fill(0);
        self.len += count;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// Sets the length and returns the contents to be overwritten by a read.
    pub(crate) fn resize_for_read(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.capacity, "a buffer is never grown");
        self.len = len;
        &mut self.memory[self.start..self.start + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_padding_is_zero_after_reuse() {
        let mut buffer = AlignedBuffer::new(8192);
        assert_eq!(buffer.bytes().as_ptr().align_offset(DIRECT_ALIGN_BYTES), 0);
        buffer.push(&[7; 5000]);
        buffer.clear();
        buffer.push(&[1, 2, 3]);
        buffer.push_zeros(5);
        assert_eq!(buffer.bytes(), [1, 2, 3, 0, 0, 0, 0, 0]);
        buffer.push_zeros(4088);
        assert_eq!((buffer.len(), buffer.left()), (4096, 4096));
        assert!(buffer.bytes()[3..].iter().all(|byte| *byte == 0));
    }
}
