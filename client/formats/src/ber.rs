//! Elements of BER and DER (X.690), read as far as a file needs them: tags, lengths and contents.
//!
//! The other modules read DER. PKCS #12 and PKCS #7 files may be in BER, so [`to_der`] converts
//! indefinite lengths and strings in pieces. It keeps every other byte, because signatures and MACs
//! cover encodings.

use zeroize::Zeroizing;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
/// The constructed tag \[0\].
pub(crate) const CONTEXT_0: u8 = 0xa0;

/// The greatest depth of the structures of a file in BER.
const MAX_DEPTH: u32 = 64;
/// The bit of a tag that says that the content consists of elements.
const CONSTRUCTED: u8 = 0x20;

#[derive(Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    /// The tag, the length and the content.
    pub(crate) whole: &'a [u8],
}

/// Returns the first element, and the bytes after it. `None` if its length is indefinite or does
/// not fit, or if its tag has several bytes.
pub(crate) fn first(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&tag, rest) = bytes.split_first().filter(|(tag, _)| **tag & 0x1f != 0x1f)?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((Element { tag, content, whole: &bytes[..bytes.len() - after.len()] }, after))
}

pub(crate) fn elements(mut content: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut all = Vec::new();
    while !content.is_empty() {
        let (element, rest) = first(content)?;
        all.push(element);
        content = rest;
    }
    Some(all)
}

/// Returns the only element in these bytes. An explicit tag has one element.
pub(crate) fn only(bytes: &[u8]) -> Option<Element<'_>> {
    first(bytes).filter(|(_, rest)| rest.is_empty()).map(|(element, _)| element)
}

/// Returns the elements of the only element in these bytes, if it has this tag.
pub(crate) fn members(bytes: &[u8], tag: u8) -> Option<Vec<Element<'_>>> {
    elements(only(bytes).filter(|outer| outer.tag == tag)?.content)
}

/// Returns a small number that is not negative.
pub(crate) fn number(element: &Element<'_>) -> Option<u64> {
    let is_small = element.tag == INTEGER && (1..=8).contains(&element.content.len());
    let number = element.content.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    (is_small && element.content[0] < 0x80).then_some(number)
}

pub(crate) fn encode(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let length = parts.iter().map(|part| part.len()).sum();
    let mut whole = Zeroizing::new(Vec::with_capacity(length + 6));
    whole.extend(header(tag, length));
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    whole
}

fn header(tag: u8, length: usize) -> Vec<u8> {
    let bytes = length.to_be_bytes();
    let bytes = &bytes[length.leading_zeros() as usize / 8..];
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => vec![tag, short],
        _ => [&[tag, 0x80 | bytes.len() as u8], bytes].concat(),
    }
}

/// Converts the first element of a file from BER to DER. Fails if blanks are not the only bytes
/// after it.
pub(crate) fn to_der(ber: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (der, rest) = first_to_der(ber)?;
    rest.iter().all(u8::is_ascii_whitespace).then_some(der)
}

/// The most elements of a file that follow each other. Each needs room of its own.
const MOST: usize = 4096;

/// Converts the elements of a file, which follow each other, from BER to DER. Blanks may be between
/// them, and zeros at the end, as in a dump of a card. Fails for other bytes, and for more than
/// [`MOST`] elements.
pub(crate) fn all_to_der(mut ber: &[u8]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
    let mut all = Vec::new();
    while all.is_empty() || !ber.iter().all(|byte| *byte == 0) {
        (all.len() < MOST).then_some(())?;
        let (der, rest) = first_to_der(ber).filter(|(der, _)| der[0] != 0)?;
        all.push(der);
        ber = rest.trim_ascii_start();
    }
    Some(all)
}

/// Converts the first structure, and returns the bytes after it.
pub(crate) fn first_to_der(ber: &[u8]) -> Option<(Zeroizing<Vec<u8>>, &[u8])> {
    // The buffer has its size from the start: growing it would leave copies of the key. The bytes
    // after the structure count for nothing: a file of many would take the square of its length.
    let length = ber.len() - after(ber, MAX_DEPTH)?.len();
    let mut der = Zeroizing::new(Vec::with_capacity(length + 1024));
    let rest = convert(ber, 0, MAX_DEPTH, &mut der)?;
    Some((der, rest))
}

/// Returns the bytes after the first element.
fn after(bytes: &[u8], depth: u32) -> Option<&[u8]> {
    if bytes.get(1) != Some(&0x80) {
        return first(bytes).map(|(_, rest)| rest);
    }
    let mut left = &bytes[2..];
    loop {
        match left {
            [0, 0, rest @ ..] => return Some(rest),
            _ => left = after(left, depth.checked_sub(1)?)?,
        }
    }
}

/// Appends the first element to `out`, and returns the bytes after it. `previous` is the tag of the
/// element before it in the same structure.
fn convert<'a>(bytes: &'a [u8], previous: u8, depth: u32, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (start, tag) = (out.len(), *bytes.first()?);
    let definite = if bytes.get(1) == Some(&0x80) { None } else { Some(first(bytes)?) };
    if let Some((element, rest)) = definite.filter(|_| tag & CONSTRUCTED == 0) {
        out.extend_from_slice(element.whole);
        return Some(rest);
    }
    if tag & CONSTRUCTED == 0 || tag & 0x1f == 0x1f {
        return None;
    }
    let mut left = definite.map_or(&bytes[2..], |(element, _)| element.content);
    let (mut before, mut only_octets) = (0, true);
    let rest = loop {
        match (definite, left) {
            (Some((_, rest)), []) | (None, [0, 0, rest @ ..]) => break rest,
            _ => {
                let at = out.len();
                left = convert(left, before, depth.checked_sub(1)?, out)?;
                before = out[at];
                only_octets &= before == OCTET_STRING;
            }
        }
    };
    // RFC 5652, 6.1: the encrypted content is the octet string [0] after the algorithm.
    let is_encrypted = tag == CONTEXT_0 && previous == SEQUENCE && only_octets && out.len() > start;
    let head = if is_encrypted || tag == OCTET_STRING | CONSTRUCTED {
        join(out, start)?;
        header(tag & !CONSTRUCTED, out.len() - start)
    } else {
        match definite {
            Some((element, _)) if element.content == &out[start..] => {
                element.whole[..element.whole.len() - element.content.len()].to_vec()
            }
            _ => header(tag, out.len() - start),
        }
    };
    out.splice(start..start, head);
    Some(rest)
}

/// Replaces the octet strings at the end of `out` by their contents.
fn join(out: &mut Vec<u8>, start: usize) -> Option<()> {
    let (mut from, mut to) = (start, start);
    while from < out.len() {
        let (piece, _) = first(&out[from..]).filter(|(piece, _)| piece.tag == OCTET_STRING)?;
        let (whole, length) = (piece.whole.len(), piece.content.len());
        out.copy_within(from + whole - length..from + whole, to);
        (from, to) = (from + whole, to + length);
    }
    out.truncate(to);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_several_elements_and_zeros_at_its_end() {
        const ONE: &[u8] = b"\x30\x03\x02\x01\x07";
        for (between, after, number) in [
            (&b""[..], &b""[..], Some(2)),
            (b"\r\n", b"\n", Some(2)),
            (b"", b"\0\0\0\0", Some(2)),
            (b"", b"\x30", None),
            (b"\0", b"", None),
            (b"", b"\0\xff", None),
        ] {
            let all = all_to_der(&[ONE, between, ONE, after].concat());
            assert_eq!(all.as_ref().map(Vec::len), number, "{between:x?} {after:x?}");
            assert!(all.into_iter().flatten().all(|der| der[..] == *ONE));
        }
        assert!(all_to_der(&[0; 9]).is_none() && all_to_der(b"").is_none());
    }

    #[test]
    fn the_room_of_an_element_is_that_of_its_own_bytes() {
        let many = b"\x30\x80\0\0".repeat(MOST);
        let all = all_to_der(&many).expect("elements");
        assert_eq!(all.len(), MOST);
        assert!(all.iter().all(|der| der[..] == *b"\x30\0" && der.capacity() < 4096));
        assert!(all_to_der(&b"\x30\x80\0\0".repeat(MOST + 1)).is_none());
        let deep = [b"\x30\x80".repeat(9), b"\0\0".repeat(9)].concat();
        assert_eq!(after(&[&deep[..], b"rest"].concat(), MAX_DEPTH), Some(&b"rest"[..]));
        assert_eq!(after(&deep[..deep.len() - 1], MAX_DEPTH), None);
    }

    #[test]
    fn only_indefinite_lengths_and_strings_in_pieces_change() {
        for (ber, der) in [
            // DER, and a length in more bytes than it needs.
            (&b"\x30\x03\x02\x01\x07"[..], Some(&b"\x30\x03\x02\x01\x07"[..])),
            (b"\x30\x81\x03\x01\x01\x01", Some(b"\x30\x81\x03\x01\x01\x01")),
            (b"\x30\x03\x02\x01\x07\r\n", Some(b"\x30\x03\x02\x01\x07")),
            (b"\x30\x80\x02\x01\x07\0\0", Some(b"\x30\x03\x02\x01\x07")),
            (b"\x24\x80\x04\x01a\x24\x06\x04\x01b\x04\x01c\0\0", Some(b"\x04\x03abc")),
            (b"\x24\0", Some(b"\x04\0")),
            // The encrypted content of RFC 5652, and the explicit tag of a content.
            (b"\x30\x80\x30\0\xa0\x80\x04\x01a\x04\x01b\0\0\0\0", Some(b"\x30\x06\x30\0\x80\x02ab")),
            (b"\x30\x80\x06\0\xa0\x80\x04\x01a\0\0\0\0", Some(b"\x30\x07\x06\0\xa0\x03\x04\x01a")),
            // No end, a primitive element of indefinite length, other bytes after the end.
            (b"\x30\x80\x02\x01\x07", None),
            (b"\x04\x80\0\0", None),
            (b"\x24\x03\x02\x01\x07", None),
            (b"\x30\x03\x02\x01\x07\0", None),
            (b"\x30\x84\xff\xff\xff\xff", None),
        ] {
            assert_eq!(to_der(ber).as_deref().map(Vec::as_slice), der, "{ber:02x?}");
        }
        assert!(to_der(&[0x30, 0x80].repeat(100_000)).is_none());
    }
}
