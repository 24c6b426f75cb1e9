//! Computes how similar two lines are.

use std::collections::HashMap;

use super::search::Search;

/// Similarity from 0 to 1: one minus the Levenshtein distance in characters over the length of the
/// longer line. `None` if the search has no steps left for it.
pub(super) fn likeness(search: &Search<'_>, a: &str, b: &str) -> Option<f64> {
    if !search.spend(8 + a.len().min(b.len()) / 16) {
        return None;
    }
    if a == b {
        return Some(1.0);
    }
    // a line has at most as many characters as bytes, and at least a quarter as many
    if !search.spend(300 + 60 * (a.len() + b.len()).min(256) + 4 * (a.len() + b.len())) {
        return None;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let longer = a.len().max(b.len());
    let (a, b) = differing(&a, &b);
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let words = short.len().div_ceil(64);
    if !search.spend(long.len().saturating_mul(20 + 4 * words)) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "no line has 2^52 characters")]
    let unlike = distance(short, long) as f64 / longer as f64;
    Some(1.0 - unlike)
}

/// Both without their common start and end.
fn differing<'a>(a: &'a [char], b: &'a [char]) -> (&'a [char], &'a [char]) {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (&a[..a.len() - end], &b[..b.len() - end])
}

/// Levenshtein distance, 64 rows of the matrix at a time (Myers 1999, in blocks as by Hyyrö 2003).
pub(super) fn distance(short: &[char], long: &[char]) -> usize {
    if short.is_empty() {
        return long.len();
    }
    let blocks = short.len().div_ceil(64);
    let rows = rows(short, blocks);
    let none = vec![0; blocks];
    let mut column = vec![Block { up: u64::MAX, down: 0 }; blocks];
    let last = 1_u64 << ((short.len() - 1) % 64);
    let mut distance = short.len();
    for c in long {
        let equal = rows.get(c).unwrap_or(&none);
        // the first row of the matrix grows by one with every character
        let mut carry = Step { up: 1, down: 0 };
        for (nth, block) in column.iter_mut().enumerate() {
            let step = block.advance(equal[nth], carry);
            carry = Step { up: step.up >> 63, down: step.down >> 63 };
            if nth + 1 == blocks {
                distance += usize::from(step.up & last != 0);
                distance -= usize::from(step.down & last != 0);
            }
        }
    }
    distance
}

/// For each character, its positions as bits.
fn rows(text: &[char], blocks: usize) -> HashMap<char, Vec<u64>> {
    let mut rows: HashMap<char, Vec<u64>> = HashMap::new();
    for (at, c) in text.iter().enumerate() {
        rows.entry(*c).or_insert_with(|| vec![0; blocks])[at / 64] |= 1 << (at % 64);
    }
    rows
}

/// Where the distance grows or shrinks from row to row, in 64 rows.
#[derive(Clone)]
struct Block {
    up: u64,
    down: u64,
}

/// Where the distance grows or shrinks from the last column to this one.
#[derive(Clone, Copy)]
struct Step {
    up: u64,
    down: u64,
}

impl Block {
    fn advance(&mut self, equal: u64, carry: Step) -> Step {
        let vertical = equal | self.down;
        let equal = equal | carry.down;
        let diagonal = ((equal & self.up).wrapping_add(self.up) ^ self.up) | equal;
        let step = Step { up: self.down | !(diagonal | self.up), down: self.up & diagonal };
        let (up, down) = (step.up << 1 | carry.up, step.down << 1 | carry.down);
        self.up = down | !(vertical | up);
        self.down = up & vertical;
        step
    }
}
