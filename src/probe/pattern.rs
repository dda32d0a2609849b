//! The bytes that a probe sends: every 8-byte word tells its own place and the probe's nonce.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014):
/// every input bit moves every output byte.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The increment of SplitMix64: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bytes of one probe, by offset in the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    seed: u64,
}

impl Pattern {
    /// The pattern of the probe with this nonce.
    pub fn new(nonce: u64) -> Self {
        // Mixed, so that the patterns of nonces 1 and 2 are not one pattern shifted by a word.
        Self { seed: mix(nonce) }
    }

    fn word(self, index: u64) -> [u8; 8] {
        mix(self.seed.wrapping_add(index.wrapping_mul(STEP))).to_le_bytes()
    }

    /// Writes the bytes that belong at `offset`, a multiple of 8, into `into`.
    pub fn fill(self, offset: usize, into: &mut [u8]) {
        debug_assert!(offset.is_multiple_of(8), "words begin at multiples of 8");
        for (index, chunk) in (offset as u64 / 8..).zip(into.chunks_mut(8)) {
            let word = self.word(index);
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// As [`Pattern::fill`], every bit inverted: what a buffer holds before anything lands.
    pub fn fill_inverse(self, offset: usize, into: &mut [u8]) {
        self.fill(offset, into);
        into.iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// How many bytes of `found` differ from `expected`, which is as long.
pub(super) fn count_wrong(expected: &[u8], found: &[u8]) -> u64 {
    if expected == found {
        return 0;
    }
    expected.iter().zip(found).filter(|(a, b)| a != b).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(nonce: u64, offset: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Pattern::new(nonce).fill(offset, &mut bytes);
        bytes
    }

    #[test]
    fn a_part_is_the_part_of_the_whole() {
        let whole = bytes(7, 0, 1003);
        assert_eq!(bytes(7, 64, 100), whole[64..164]);
        assert_eq!(bytes(7, 1000, 3), whole[1000..]);
    }

    #[test]
    fn another_place_or_another_nonce_is_told_apart() {
        // A slot that landed one slot, page or word off must not look right.
        let here = bytes(7, 0, 4096);
        for offset in [8, 4096, 65_536, 1 << 30] {
            assert!(
                count_wrong(&bytes(7, offset, 4096), &here) > 3500,
                "{offset}"
            );
        }
        for nonce in [0, 6, 8, u64::MAX] {
            assert!(count_wrong(&bytes(nonce, 0, 4096), &here) > 3500, "{nonce}");
        }
    }

    #[test]
    fn the_inverse_is_wrong_in_every_byte() {
        let mut inverse = vec![0; 4099];
        Pattern::new(7).fill_inverse(0, &mut inverse);
        assert_eq!(count_wrong(&bytes(7, 0, 4099), &inverse), 4099);
    }

    #[test]
    fn one_flipped_bit_is_one_wrong_byte() {
        let expected = bytes(7, 0, 4096);
        let mut found = expected.clone();
        found[4095] ^= 0x10;
        assert_eq!(count_wrong(&expected, &found), 1);
    }
}
