//! Random numbers for tests that a seed repeats.

/// Random numbers (Steele, Lea, Flood: SplitMix64).
pub struct Random(u64);

impl Random {
    /// Prints the seed. The environment variable of this name sets it, to repeat a run. A value
    /// that is not a number counts as an absent one, and the printed line shows this.
    pub fn new(variable: &str) -> Self {
        let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
        let seed = given.unwrap_or_else(now);
        println!("{variable}={seed}");
        Self(seed)
    }

    /// Returns the numbers of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}
