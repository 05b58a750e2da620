//! Digests of many short inputs at a time.
//!
//! blake3 hashes chunks of 1 kB of an input side by side in the lanes of a vector. An object of 2 kB
//! has two chunks, so most lanes stay empty. Here chunks of different inputs share the lanes, which
//! takes a third of the time.

use blake3::hazmat::{ChainingValue, Mode, merge_subtrees_non_root, merge_subtrees_root};
use blake3::platform::{MAX_SIMD_DEGREE, Platform, le_bytes_from_words_32, words_from_le_bytes_32};
use blake3::{BLOCK_LEN, CHUNK_LEN, IncrementCounter, OUT_LEN};

use crate::Digest;

/// The initial state (section 2.2 of the specification of blake3).
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
/// Flags of blocks (section 2.1).
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const ROOT: u8 = 1 << 3;

/// The number of blocks of a full chunk.
const FULL: usize = CHUNK_LEN / BLOCK_LEN;

impl Digest {
    /// The digest of each of these.
    pub fn of_each(inputs: &[&[u8]]) -> Vec<Digest> {
        let platform = Platform::detect();
        // A longer input fills the lanes by itself.
        let is_short = |input: &[u8]| input.len() <= platform.simd_degree() * CHUNK_LEN;
        let short: Vec<&[u8]> = inputs.iter().copied().filter(|input| is_short(input)).collect();
        let mut of_short = side_by_side(platform, &short).into_iter();
        let of = |input: &&[u8]| {
            let known = if is_short(input) { of_short.next() } else { None };
            known.unwrap_or_else(|| Digest::of(input))
        };
        inputs.iter().map(of).collect()
    }
}

fn side_by_side(platform: Platform, inputs: &[&[u8]]) -> Vec<Digest> {
    let mut chunks: Vec<Chunk> = inputs.iter().flat_map(|input| chunks(input)).collect();
    let mut order: Vec<(Kind, usize)> =
        chunks.iter().map(Chunk::kind).enumerate().map(|(at, kind)| (kind, at)).collect();
    order.sort_unstable();
    for alike in order.chunk_by(|(one, _), (other, _)| one == other) {
        for lanes in alike.chunks(MAX_SIMD_DEGREE) {
            hash_whole_blocks(platform, &mut chunks, lanes);
        }
    }
    chunks.iter_mut().for_each(|chunk| chunk.hash_last_block(platform));
    let of_one_input = chunks.chunk_by(|_, next| next.number > 0);
    of_one_input.map(|chunks| Digest::from_bytes(root(chunks))).collect()
}

/// Chunks of the same kind can share the lanes: number and whole blocks.
type Kind = (u64, usize);

/// A chunk of an input.
struct Chunk<'a> {
    bytes: &'a [u8],
    /// Its number in the input.
    number: u64,
    /// The number of blocks that are hashed in lanes: all, or those before the last block of the
    /// input, which may be short and has other flags.
    whole_blocks: usize,
    is_only: bool,
    value: ChainingValue,
}

fn chunks(input: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let count = input.len().div_ceil(CHUNK_LEN).max(1);
    (0..count).map(move |number| {
        let end = input.len().min((number + 1) * CHUNK_LEN);
        let bytes = &input[number * CHUNK_LEN..end];
        let is_last = number + 1 == count;
        let whole_blocks = if is_last { bytes.len().saturating_sub(1) / BLOCK_LEN } else { FULL };
        let (number, is_only, value) = (number as u64, count == 1, [0; OUT_LEN]);
        Chunk { bytes, number, whole_blocks, is_only, value }
    })
}

impl Chunk<'_> {
    fn kind(&self) -> Kind {
        (self.number, self.whole_blocks)
    }

    fn hash_last_block(&mut self, platform: Platform) {
        if self.whole_blocks == FULL {
            return;
        }
        let rest = &self.bytes[self.whole_blocks * BLOCK_LEN..];
        let mut block = [0; BLOCK_LEN];
        block[..rest.len()].copy_from_slice(rest);
        let start = if self.whole_blocks == 0 { CHUNK_START } else { 0 };
        let flags = CHUNK_END | start | if self.is_only { ROOT } else { 0 };
        let mut state = words_from_le_bytes_32(&self.value);
        platform.compress_in_place(&mut state, &block, rest.len() as u8, self.number, flags);
        self.value = le_bytes_from_words_32(&state);
    }
}

/// Hashes the whole blocks of chunks of one kind, one chunk in each lane.
fn hash_whole_blocks(platform: Platform, chunks: &mut [Chunk], lanes: &[(Kind, usize)]) {
    let mut values = [0; MAX_SIMD_DEGREE * OUT_LEN];
    macro_rules! with_length {
        ($($blocks:literal)*) => {
            match lanes[0].0.1 {
                $($blocks => hash_starts::<{ $blocks * BLOCK_LEN }>(platform, chunks, lanes, &mut values),)*
                _ => values.as_chunks_mut().0.fill(le_bytes_from_words_32(&INITIAL)),
            }
        };
    }
    with_length!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
    for ((_, at), value) in lanes.iter().zip(values.as_chunks().0) {
        chunks[*at].value = *value;
    }
}

/// Hashes the first bytes of chunks of one kind.
fn hash_starts<const LENGTH: usize>(
    platform: Platform,
    chunks: &[Chunk],
    lanes: &[(Kind, usize)],
    values: &mut [u8],
) {
    let mut starts = [&[0; LENGTH]; MAX_SIMD_DEGREE];
    for (start, (_, at)) in starts.iter_mut().zip(lanes) {
        // Every chunk of this kind is at least that long.
        *start = chunks[*at].bytes.first_chunk().unwrap_or(*start);
    }
    let ((number, _), _) = lanes[0];
    let end = if LENGTH == CHUNK_LEN { CHUNK_END } else { 0 };
    let same = IncrementCounter::No;
    platform.hash_many(&starts[..lanes.len()], &INITIAL, number, same, 0, CHUNK_START, end, values);
}

/// The hash of an input from the values of its chunks.
fn root(chunks: &[Chunk]) -> [u8; OUT_LEN] {
    match chunks {
        [only] => only.value,
        chunks => {
            let (left, right) = halves(chunks);
            *merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).as_bytes()
        }
    }
}

fn subtree(chunks: &[Chunk]) -> ChainingValue {
    match chunks {
        [only] => only.value,
        chunks => {
            let (left, right) = halves(chunks);
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

/// The left subtree has the largest power of two of chunks that leaves some for the right one.
fn halves<'a, 'b>(chunks: &'a [Chunk<'b>]) -> (&'a [Chunk<'b>], &'a [Chunk<'b>]) {
    chunks.split_at(chunks.len().next_power_of_two() / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn assert_as_one_by_one(inputs: &[&[u8]]) {
        let expected: Vec<Digest> = inputs.iter().map(|input| Digest::of(input)).collect();
        assert!(Digest::of_each(inputs) == expected);
    }

    #[test]
    fn every_length_has_the_digest_that_it_has_alone() {
        let bytes = noise(4 * CHUNK_LEN);
        let inputs: Vec<&[u8]> = (0..=bytes.len()).map(|length| &bytes[..length]).collect();
        assert_as_one_by_one(&inputs);
        for input in inputs {
            assert_as_one_by_one(&[input]);
        }
        assert_as_one_by_one(&[]);
    }

    #[test]
    fn every_number_of_chunks_gives_the_digest_that_it_gives_alone() {
        let bytes = noise(3 * MAX_SIMD_DEGREE * CHUNK_LEN);
        let ends = (1..=3 * MAX_SIMD_DEGREE).map(|chunks| chunks * CHUNK_LEN);
        let lengths = ends.flat_map(|end| [end - 1000, end - 1, end]);
        let inputs: Vec<&[u8]> = lengths.map(|length| &bytes[..length]).collect();
        assert_as_one_by_one(&inputs);
    }

    proptest! {
        #[test]
        fn any_inputs_have_the_digests_that_they_have_alone(
            lengths in prop::collection::vec(0..20_000usize, 0..40),
        ) {
            let bytes = noise(lengths.iter().sum());
            let mut rest = bytes.as_slice();
            let take = |length: &usize| {
                let (own, others) = rest.split_at(*length);
                rest = others;
                own
            };
            let inputs: Vec<&[u8]> = lengths.iter().map(take).collect();
            assert_as_one_by_one(&inputs);
        }
    }
}
