//! The symbolic bytes of keys, and what the attacker learns if two one-way images are equal.

use std::collections::BTreeSet;

/// The number of unknown bytes that the attacker guesses.
pub(crate) const GUESSED: usize = 2;
/// The number of unknown bytes that the attacker searches for outside the token: a DES key.
const SEARCHED: usize = 8;
/// The length to which HMAC pads its key with zeros.
pub(crate) const PADDED: usize = 64;

/// A secret byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Atom {
    Victim(u8),
    /// A byte of a one-way result.
    Result(u32, u8),
}

/// A byte of a key: a secret byte, XORed with a constant that the attacker chose, and with the byte
/// that he varies. Its lowest bit may be the parity that the token set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Byte {
    pub(crate) atom: Option<Atom>,
    pub(crate) constant: u8,
    pub(crate) varied: bool,
    pub(crate) parity: bool,
}

impl Byte {
    pub(crate) const ZERO: Self = Self { atom: None, constant: 0, varied: false, parity: false };
    pub(crate) const VARIED: Self = Self { atom: None, varied: true, ..Self::ZERO };

    pub(crate) fn of(atom: Atom) -> Self {
        Self { atom: Some(atom), ..Self::ZERO }
    }

    pub(crate) fn xor(self, other: Self) -> Self {
        Self {
            atom: self.atom.or(other.atom),
            constant: self.constant ^ other.constant,
            varied: self.varied != other.varied,
            parity: self.parity || other.parity,
        }
    }

    /// Returns the byte with the parity that the token sets. The attacker computes that of his own
    /// bytes.
    pub(crate) fn with_parity(self) -> Self {
        Self { parity: self.atom.is_some(), ..self }
    }

    pub(crate) fn without_parity(self) -> Self {
        Self { parity: false, ..self }
    }
}

/// A one-way image of bytes that the attacker can compare with another of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A digest or a MAC of exactly these bytes.
    Message,
    /// A MAC under these bytes, padded with zeros.
    MacKey,
    /// The XOR of two MACs, each under a half of these bytes.
    Halves,
    /// A ciphertext under this number of keys, each of which is a part of these bytes.
    Parts(usize),
}

/// Writes bytes, with one word for each run of consecutive ones.
pub(crate) fn text(bytes: &[Byte]) -> String {
    let name = |byte: &Byte| {
        let varied = match (byte.varied, byte.parity) {
            (varied, true) => {
                if varied {
                    "*p"
                } else {
                    "p"
                }
            }
            (true, false) => "*",
            (false, false) => "",
        };
        match byte.atom {
            None => format!("{:02x}{varied}", byte.constant),
            Some(Atom::Victim(at)) => format!("V{at}{varied}"),
            Some(Atom::Result(term, at)) => format!("R{term}.{at}{varied}"),
        }
    };
    let next = |a: &Byte, b: &Byte| match (a.atom, b.atom) {
        (None, None) => a == b,
        (Some(Atom::Victim(a)), Some(Atom::Victim(b))) => b == a + 1,
        (Some(Atom::Result(s, a)), Some(Atom::Result(t, b))) => s == t && b == a + 1,
        _ => false,
    };
    let runs = bytes.chunk_by(|a, b| a.varied == b.varied && a.parity == b.parity && next(a, b));
    let run = |run: &[Byte]| match run {
        [one] => name(one),
        run => format!("{}-{}", name(&run[0]), name(&run[run.len() - 1])),
    };
    runs.map(run).collect::<Vec<_>>().join(" ")
}

pub(crate) fn padded(bytes: &[Byte]) -> Vec<Byte> {
    let mut out = bytes.to_vec();
    out.resize(PADDED.max(out.len()), Byte::ZERO);
    out
}

/// Returns whether equal images show a few bytes: the two differ, at most in [`GUESSED`] relations.
pub(crate) fn differs_in_few(a: &[Byte], b: &[Byte]) -> bool {
    let (mut relations, mut parity) = (BTreeSet::new(), false);
    for (one, two) in a.iter().zip(b) {
        if one == two {
            continue;
        }
        let (low, high) = (one.atom.min(two.atom), one.atom.max(two.atom));
        if low == high && one.parity != two.parity {
            // One bit. The attacker masks some bits in one image and the other ones in the other
            // image, so that he needs few images for all bytes together.
            parity = true;
            continue;
        }
        if low == high {
            // Equal secret bytes, or none: equality depends on the attacker's own bytes alone.
            if one.constant != two.constant && one.varied == two.varied {
                return false;
            }
            continue;
        }
        relations.insert((low, high, one.constant ^ two.constant, one.varied != two.varied));
        if relations.len() > GUESSED {
            return false;
        }
    }
    parity || !relations.is_empty()
}

/// Returns whether the token set the parity in one of the images and not in the other.
pub(crate) fn shows_parity(a: &[Byte], b: &[Byte]) -> bool {
    a.iter().zip(b).any(|(a, b)| a.parity != b.parity)
}

/// Two ciphertexts under keys of which one part differs depend on this part alone, as far as they
/// differ. The attacker searches for a part that is short enough.
pub(crate) fn parts_show(parts: usize, a: &[Byte], b: &[Byte]) -> bool {
    let len = a.len() / parts;
    let mut differing = a.chunks(len).zip(b.chunks(len)).filter(|(a, b)| a != b);
    let (Some((one, two)), None) = (differing.next(), differing.next()) else { return false };
    let unknown: BTreeSet<_> = one.iter().chain(two).filter_map(|byte| byte.atom).collect();
    !unknown.is_empty() && unknown.len() <= SEARCHED
}

/// Returns whether the attacker knows a part of a key and not the others: then the ciphertext is a
/// function of these, with an input that he chooses.
pub(crate) fn has_known_part(parts: usize, bytes: &[Byte]) -> bool {
    let known = |part: &[Byte]| part.iter().all(|byte| byte.atom.is_none());
    let known = bytes.chunks(bytes.len() / parts).filter(|part| known(part)).count();
    known > 0 && known < parts
}

/// The XOR of two results with one equal half depends on the other halves alone.
pub(crate) fn halves_show(a: &[Byte], b: &[Byte]) -> bool {
    let (a, b) = (a.split_at(a.len() / 2), b.split_at(b.len() / 2));
    let few = |one: &[Byte], two: &[Byte]| {
        let unknown: BTreeSet<_> = one.iter().chain(two).filter_map(|byte| byte.atom).collect();
        one != two && !unknown.is_empty() && unknown.len() <= GUESSED
    };
    a.0 == b.0 && few(a.1, b.1) || a.1 == b.1 && few(a.0, b.0)
}
