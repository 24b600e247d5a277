//! The numbers in templates and values: eight bytes in messages, and those of a `CK_ULONG` in the
//! application. `N` is the size of a `CK_ULONG`, which is four on Windows.

use std::borrow::Cow;

use jeton_names::structs::NUMBERS;
use jeton_words::attribute::{Shown, ULONG};
use jeton_words::id::AttributeType;
use jeton_words::template::{Given, Raw, Template};

/// The size of a number in a message.
const WIDE: usize = 8;

/// A template of the application as it travels.
pub struct Sent<'a, const N: usize = ULONG> {
    given: &'a Template<'a>,
    /// The values of its numbers, one after the other.
    numbers: Vec<Vec<u8>>,
}

impl<'a, const N: usize> Sent<'a, N> {
    pub fn new(given: &'a Template<'a>) -> Self {
        let mut numbers = Vec::new();
        if N != WIDE {
            collect::<N>(given, &mut numbers);
        }
        Self { given, numbers }
    }

    pub fn template(&self) -> Cow<'_, Template<'_>> {
        match N {
            WIDE => Cow::Borrowed(self.given),
            _ => Cow::Owned(replace(self.given, &mut self.numbers.iter())),
        }
    }
}

fn collect<const N: usize>(template: &Template<'_>, numbers: &mut Vec<Vec<u8>>) {
    for Given { id, value } in &template.0 {
        match value {
            Raw::Bytes(bytes) if are_numbers(*id) => numbers.push(widened::<N>(bytes)),
            Raw::Bytes(_) => {}
            Raw::Template(within) => collect::<N>(within, numbers),
        }
    }
}

fn replace<'a>(template: &'a Template<'a>, numbers: &mut impl Iterator<Item = &'a Vec<u8>>) -> Template<'a> {
    let mut replaced = |Given { id, value }: &'a Given<'a>| {
        let value = match value {
            Raw::Bytes(bytes) => match are_numbers(*id).then(|| numbers.next()).flatten() {
                Some(wide) => Raw::Bytes(wide),
                None => Raw::Bytes(bytes),
            },
            Raw::Template(within) => Raw::Template(replace(within, numbers)),
        };
        Given { id: *id, value }
    };
    Template(template.0.iter().map(&mut replaced).collect())
}

fn are_numbers(kind: AttributeType) -> bool {
    NUMBERS.contains(&kind.0)
}

/// Returns numbers of the application as they travel. A length that is wrong stays wrong.
fn widened<const N: usize>(bytes: &[u8]) -> Vec<u8> {
    let mut wide = Vec::with_capacity(bytes.len() / N * WIDE);
    let numbers = bytes.chunks_exact(N);
    let rest = numbers.remainder();
    for number in numbers {
        // Such as `CK_UNAVAILABLE_INFORMATION`.
        let filler = if number.iter().all(|byte| *byte == 0xff) { 0xff } else { 0 };
        wide.extend(number);
        wide.resize(wide.len() + WIDE - N, filler);
    }
    wide.extend(rest);
    wide
}

/// Returns the room for a value in a message. `kind` is `None` if only the object knows it.
pub fn room<const N: usize>(kind: Option<AttributeType>, room: u64) -> u64 {
    let scale = kind.is_none_or(are_numbers);
    if scale && N != WIDE { (room / N as u64).saturating_mul(WIDE as u64) + room % N as u64 } else { room }
}

/// Returns the length of a value in the application.
pub fn length<const N: usize>(kind: AttributeType, len: u64) -> usize {
    let len = len as usize;
    if are_numbers(kind) { len / WIDE * N + len % WIDE } else { len }
}

/// Returns a value for the application.
pub fn value<const N: usize>(kind: AttributeType, bytes: &[u8]) -> Shown<'_> {
    if N == WIDE || !are_numbers(kind) {
        return Shown::Held(bytes);
    }
    let (numbers, _) = bytes.as_chunks::<WIDE>();
    Shown::Made(numbers.iter().flat_map(|wide| number::<N>(u64::from_le_bytes(*wide))).collect())
}

/// Returns a number for the application: the greatest one in place of a longer one.
pub fn number<const N: usize>(number: u64) -> [u8; N] {
    let greatest = u64::MAX >> (8 * (WIDE - N));
    let narrow = match number {
        u64::MAX => greatest,
        number if N != WIDE => number.min(greatest - 1),
        number => number,
    };
    let bytes = narrow.to_le_bytes();
    std::array::from_fn(|index| bytes[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: usize = 4;

    fn given(id: AttributeType, bytes: &[u8]) -> Given<'_> {
        Given { id, value: Raw::Bytes(bytes) }
    }

    fn bytes<'a>(given: &'a Given<'_>) -> &'a [u8] {
        if let Raw::Bytes(bytes) = &given.value { bytes } else { &[] }
    }

    #[test]
    fn short_numbers_of_a_template_travel_as_long_ones() {
        let within = Template(vec![given(AttributeType::KEY_TYPE, &[31, 0, 0, 0])]);
        let template = Template(vec![
            given(AttributeType::LABEL, b"four"),
            given(AttributeType::CLASS, &[4, 0, 0, 0x80]),
            Given { id: AttributeType::WRAP_TEMPLATE, value: Raw::Template(within) },
            given(AttributeType::ALLOWED_MECHANISMS, &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
            given(AttributeType::VALUE_LEN, &[1, 2, 3, 4, 5]),
        ]);
        let sent = Sent::<SHORT>::new(&template);
        let sent = sent.template();
        assert_eq!(bytes(&sent.0[0]), b"four");
        assert_eq!(bytes(&sent.0[1]), [4, 0, 0, 0x80, 0, 0, 0, 0]);
        let Raw::Template(within) = &sent.0[2].value else { panic!("a template") };
        assert_eq!(bytes(&within.0[0]), [31, 0, 0, 0, 0, 0, 0, 0]);
        let both = [[1, 0, 0, 0, 0, 0, 0, 0], [0xff; 8]].concat();
        assert_eq!(bytes(&sent.0[3]), both);
        assert_eq!(bytes(&sent.0[4]), [1, 2, 3, 4, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn long_numbers_become_short_ones_or_the_greatest() {
        assert_eq!(number::<SHORT>(7), [7, 0, 0, 0]);
        assert_eq!(number::<SHORT>(1 << 40), [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(number::<SHORT>(u64::MAX), [0xff; 4]);
        assert_eq!(number::<8>(1 << 40), (1u64 << 40).to_le_bytes());
        let list = [5u64, u64::MAX].map(u64::to_le_bytes).concat();
        let kind = AttributeType::ALLOWED_MECHANISMS;
        assert_eq!(*value::<SHORT>(kind, &list), [5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(*value::<SHORT>(AttributeType::LABEL, &list), list);
        assert_eq!((length::<SHORT>(kind, 16), length::<SHORT>(AttributeType::LABEL, 16)), (8, 16));
        assert_eq!((room::<SHORT>(Some(kind), 9), room::<8>(Some(kind), 9)), (17, 9));
    }
}
