//! Looks for secrets in the memory of this process.
//!
//! The scanner keeps the secrets with all bits inverted, so that it does not find its own copies.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// This number of consecutive bytes of a secret is a leak.
const PART: usize = 16;
/// A part with fewer secret bytes than this is no leak. Where public bytes stay in memory, the byte
/// after them is equal to the next byte of the secret in one of 256 cases.
const LEAST_SECRET: usize = 8;

/// Bytes with all bits inverted.
#[derive(Clone, Serialize, Deserialize)]
pub struct Turned(Vec<u8>);

impl Turned {
    pub fn of(bytes: &[u8]) -> Self {
        Self(bytes.iter().map(|byte| !byte).collect())
    }

    /// Returns the bytes, which are wiped after use.
    pub fn bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.0.len()));
        bytes.extend(self.0.iter().map(|byte| !byte));
        bytes
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Sought {
    pub name: String,
    turned: Turned,
    /// Its public bytes. Parts of these are not a leak.
    public: Vec<Turned>,
}

impl Sought {
    pub fn new(name: impl Into<String>, secret: &[u8]) -> Self {
        Self { name: name.into(), turned: Turned::of(secret), public: Vec::new() }
    }

    /// Parts that also occur in these bytes are not a leak.
    pub fn but(mut self, public: &[u8]) -> Self {
        self.public.push(Turned::of(public));
        self
    }

    /// Returns the secret in the forms that the scan looks for, with all bits inverted.
    fn forms(&self) -> Vec<(&'static str, Vec<u8>)> {
        let plain = &self.turned.0;
        let swapped = |len: usize| plain.chunks_exact(len).flat_map(|word| word.iter().rev().copied());
        let padded = |pad: u8| plain.iter().map(|byte| byte ^ pad).collect::<Vec<_>>();
        vec![
            ("as it is", plain.clone()),
            ("backwards", plain.iter().rev().copied().collect()),
            ("in words of 32 bits", swapped(4).collect()),
            ("in words of 64 bits", swapped(8).collect()),
            ("as HMAC's inner key", padded(0x36)),
            ("as HMAC's outer key", padded(0x5c)),
        ]
    }

    /// Returns for each byte of the secret whether it belongs to a public part.
    fn public_bytes(&self) -> Vec<bool> {
        let mut public = vec![false; self.turned.0.len()];
        for (at, part) in self.turned.0.windows(PART).enumerate() {
            if self.public.iter().any(|known| known.0.windows(PART).any(|window| window == part)) {
                public[at..at + PART].fill(true);
            }
        }
        public
    }
}

/// All parts of all forms of some secrets.
pub struct Scanner {
    /// The name and form, and the inverted bytes.
    forms: Vec<(String, Vec<u8>)>,
    /// The parts that begin with these eight inverted bytes: number of the form, and offset.
    starts: HashMap<u64, Vec<(usize, usize)>>,
    /// One bit for each hash value: whether a part begins with eight inverted bytes of that hash.
    filter: Vec<u64>,
}

/// The number of bits of a hash in the filter.
const FILTER: u32 = 20;

fn hash(start: u64) -> usize {
    (start.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER)) as usize
}

fn start_of(part: &[u8]) -> u64 {
    u64::from_ne_bytes(part[..8].try_into().expect("eight bytes"))
}

impl Scanner {
    pub fn new<'a>(all: impl IntoIterator<Item = &'a Sought>) -> Self {
        let mut scanner =
            Self { forms: Vec::new(), starts: HashMap::new(), filter: vec![0; 1 << (FILTER - 6)] };
        for sought in all {
            let public = sought.public_bytes();
            for (form, (how, turned)) in sought.forms().into_iter().enumerate() {
                let number = scanner.forms.len();
                for (at, part) in turned.windows(PART).enumerate() {
                    // Zeros and similar bytes are everywhere.
                    let few = part.iter().collect::<std::collections::HashSet<_>>().len() < 6;
                    let secret = || public[at..at + PART].iter().filter(|public| !**public).count();
                    if few || (form == 0 && secret() < LEAST_SECRET) {
                        continue;
                    }
                    let start = start_of(part);
                    scanner.starts.entry(start).or_default().push((number, at));
                    scanner.filter[hash(start) / 64] |= 1 << (hash(start) % 64);
                }
                scanner.forms.push((format!("{} {how}", sought.name), turned));
            }
        }
        scanner
    }

    /// Returns the secrets in the memory of this process, each with the number of parts that were
    /// found and the first address.
    pub fn scan(&self) -> Vec<(String, usize, String)> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a proc file system");
        let memory = File::open("/proc/self/mem").expect("a proc file system");
        let mut hits: HashMap<usize, (usize, String)> = HashMap::new();
        let mut buffer = Zeroizing::new(vec![0u8; 1 << 16]);
        let own = buffer.as_ptr_range();
        let own = own.start as u64..own.end as u64;
        for line in maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|it| it.starts_with("rw")))
        {
            let (start, end) =
                line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
            let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("an address"));
            let area = line.split_whitespace().nth(5).unwrap_or("anonymous");
            let mut at = start;
            while at < end {
                let len = buffer.len().min((end - at) as usize);
                // Unreadable memory contains no secret.
                let Ok(()) = memory.read_exact_at(&mut buffer[..len], at) else { break };
                self.look(&buffer[..len], |offset, form| {
                    let place = at + offset as u64;
                    if !own.contains(&place) {
                        let hit = hits.entry(form).or_insert_with(|| (0, format!("{place:#x}, {area}")));
                        hit.0 += 1;
                    }
                });
                if at + len as u64 >= end {
                    break;
                }
                // A part may cross the boundary.
                at += (len - PART + 1) as u64;
            }
        }
        let named = hits.into_iter().map(|(form, (count, place))| (self.forms[form].0.clone(), count, place));
        named.collect()
    }

    fn look(&self, bytes: &[u8], mut hit: impl FnMut(usize, usize)) {
        for (offset, window) in bytes.windows(PART).enumerate() {
            let start = !start_of(window);
            if self.filter[hash(start) / 64] >> (hash(start) % 64) & 1 == 0 {
                continue;
            }
            for (form, at) in self.starts.get(&start).into_iter().flatten() {
                let part = &self.forms[*form].1[*at..at + PART];
                if part.iter().zip(window).all(|(turned, byte)| *turned == !byte) {
                    hit(offset, *form);
                }
            }
        }
    }
}
