//! The sequences that decode, as one: how many, the tokens and the blocks they hold at any iteration.
//!
//! Each gains one token per iteration, so a sequence is described by a constant, its *offset*: tokens
//! held at iteration `m` are `offset + m`. Sums over all sequences then need no visit of each. Blocks
//! shared with others are left out of the block counts and kept in the token counts.

/// Aggregates over the decoding sequences.
#[derive(Clone, Debug)]
pub(super) struct Decodes {
    block_tokens: i64,
    count: u64,
    offset_sum: i64,
    /// Sum of `floor(offset / block_tokens)`, less the shared blocks.
    quotient_sum: i64,
    /// How many offsets leave each remainder modulo `block_tokens`.
    remainders: Vec<u32>,
}

impl Decodes {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self {
            block_tokens: i64::from(block_tokens),
            count: 0,
            offset_sum: 0,
            quotient_sum: 0,
            remainders: vec![0; block_tokens as usize],
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn add(&mut self, offset: i64, shared_blocks: u64) {
        self.count += 1;
        self.offset_sum += offset;
        self.quotient_sum += offset.div_euclid(self.block_tokens) - shared_blocks as i64;
        self.remainders[offset.rem_euclid(self.block_tokens) as usize] += 1;
    }

    pub(super) fn remove(&mut self, offset: i64, shared_blocks: u64) {
        self.count -= 1;
        self.offset_sum -= offset;
        self.quotient_sum -= offset.div_euclid(self.block_tokens) - shared_blocks as i64;
        self.remainders[offset.rem_euclid(self.block_tokens) as usize] -= 1;
    }

    /// Tokens held at iteration `step`, the one it computes included.
    pub(super) fn tokens(&self, step: u64) -> u64 {
        (self.offset_sum + (self.count * step) as i64) as u64
    }

    /// Blocks held at iteration `step`.
    pub(super) fn blocks(&self, step: u64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let turns = (step as i64).div_euclid(self.block_tokens);
        let phase = (step as i64).rem_euclid(self.block_tokens) as usize;
        // A remainder r needs ceil((r + phase) / block_tokens) blocks more: none, one, or two.
        let mut extra = self.count as i64;
        if phase == 0 {
            extra -= i64::from(self.remainders[0]);
        } else {
            let two_from = self.remainders.len() - phase + 1;
            extra += self.remainders[two_from..].iter().map(|&n| i64::from(n)).sum::<i64>();
        }
        (self.quotient_sum + self.count as i64 * turns + extra) as u64
    }

    /// The last iteration, from `step` to `last`, at which the sequences hold at most `limit` blocks.
    /// At `step` itself they must.
    pub(super) fn last_within(&self, step: u64, last: u64, limit: u64) -> u64 {
        if self.blocks(last) <= limit {
            return last;
        }
        // Every `block_tokens` iterations each sequence takes exactly one block.
        let room = limit - self.blocks(step);
        let mut at = step + room / self.count * self.block_tokens as u64;
        let mut left = room % self.count;
        while at < last {
            let remainder = (-(at as i64)).rem_euclid(self.block_tokens) as usize;
            let taken = u64::from(self.remainders[remainder]);
            if taken > left {
                break;
            }
            left -= taken;
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_match_the_sequences(
            block in 1_u32..40, held in prop::collection::vec(1_i64..5000, 1..40), step in 1_u64..3000, ahead in 0_u64..300,
            room in 0_u64..100,
        ) {
            let mut decodes = Decodes::new(block);
            let offsets: Vec<i64> = held.iter().map(|h| h - step as i64).collect();
            for &offset in &offsets { decodes.add(offset, 0); }
            let blocks = |m: u64| -> u64 {
                offsets.iter().map(|o| ((o + m as i64) as u64).div_ceil(u64::from(block))).sum()
            };
            for m in [step, step + 1, step + ahead] {
                prop_assert_eq!(decodes.blocks(m), blocks(m));
                prop_assert_eq!(decodes.tokens(m), offsets.iter().map(|o| (o + m as i64) as u64).sum::<u64>());
            }
            let limit = blocks(step) + room;
            let expected = (step..=step + ahead).take_while(|&m| blocks(m) <= limit).last().unwrap();
            prop_assert_eq!(decodes.last_within(step, step + ahead, limit), expected);
            for &offset in &offsets { decodes.remove(offset, 0); }
            prop_assert_eq!((decodes.count(), decodes.blocks(step), decodes.tokens(step)), (0, 0, 0));
        }
    }
}
