//! A random generator (SplitMix64) whose numbers are the same on every machine, and mutations of texts.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// True once in `of` times.
    pub(crate) fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn choose<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    pub(crate) fn pick<'a>(&mut self, of: &'a [String]) -> &'a str {
        &of[self.below(of.len())]
    }

    /// Some of the pieces, one after the other.
    pub(crate) fn concatenated(&mut self, pieces: &[&str], most: usize) -> String {
        (0..=self.below(most)).map(|_| self.choose(pieces)).collect()
    }

    /// The text with some changes: words are removed, doubled, exchanged, and replaced by pieces or by parts of another
    /// text.
    pub(crate) fn mutated(&mut self, text: &str, other: &str, pieces: &[&str]) -> String {
        let mut words = words(text);
        let others = self::words(other);
        for _ in 0..=self.below(4) {
            let at = self.below(words.len() + 1);
            let end = (at + self.below(4)).min(words.len());
            match self.below(9) {
                0 => drop(words.drain(at.min(end)..end)),
                1 => {
                    let doubled = words[at.min(end)..end].to_vec();
                    words.splice(at..at, doubled);
                }
                2 if words.len() > 1 => {
                    let (one, two) = (self.below(words.len()), self.below(words.len()));
                    words.swap(one, two);
                }
                3 if !others.is_empty() => {
                    let from = self.below(others.len());
                    let to = (from + 1 + self.below(8)).min(others.len());
                    words.splice(at..end.max(at), others[from..to].to_vec());
                }
                4 => words.truncate(at),
                5 => words.insert(at, self.character()),
                6 if at < words.len() => words[at] = self.choose(pieces).to_owned(),
                _ => words.insert(at, self.choose(pieces).to_owned()),
            }
        }
        words.concat()
    }

    fn character(&mut self) -> String {
        let code = match self.below(4) {
            0 => self.below(0x20),
            1 => self.below(0x100),
            2 => 0x2000 + self.below(0x100),
            _ => self.below(0x11_0000),
        };
        let code = u32::try_from(code).unwrap_or_default();
        char::from_u32(code).unwrap_or('\u{fffd}').to_string()
    }

    /// The bytes, seldom with one of them changed, so that they may be no text.
    pub(crate) fn bytes(&mut self, text: String) -> Vec<u8> {
        let mut bytes = text.into_bytes();
        if self.once_in(20) && !bytes.is_empty() {
            let at = self.below(bytes.len());
            bytes[at] = self.next().to_le_bytes()[0];
        }
        bytes
    }
}

/// Runs of letters and digits, and single other characters.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in text.chars() {
        let belongs = c.is_alphanumeric() || c == '_';
        match words.last_mut() {
            Some(word) if belongs && in_word => word.push(c),
            _ => words.push(c.to_string()),
        }
        in_word = belongs;
    }
    words
}
