//! Makes text from tokens and files, such as labels, names and comments, safe for a terminal. Reads
//! and writes hexadecimal digits.

use std::fmt::Write;

/// Returns whether a terminal obeys this character: it controls the terminal, or changes the line
/// or the direction of text.
pub fn is_obeyed(letter: char) -> bool {
    let turns = matches!(
        letter,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    letter.is_control() || turns
}

/// Returns a text without characters that a terminal obeys. They are escaped, for example `\u{1b}`.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_obeyed(letter) {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", letter.escape_unicode());
        } else {
            out.push(letter);
        }
    }
    out
}

/// Returns bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads hexadecimal digits. Ignores colons.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<_> = text.chars().filter(|letter| *letter != ':').collect();
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let digit = |letter: char| letter.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_control_the_terminal() {
        assert_eq!(shown("a\x1b[2Jb\r\n\u{202e}c\u{2028}"), r"a\u{1b}[2Jb\u{d}\u{a}\u{202e}c\u{2028}");
        assert_eq!(shown("Schlüssel 鍵"), "Schlüssel 鍵");
    }

    #[test]
    fn hexadecimal_digits_are_read_in_pairs() {
        assert_eq!(from_hex("01:aB"), Some(vec![1, 0xab]));
        assert_eq!(from_hex("1"), None);
        assert_eq!(from_hex("0g"), None);
    }
}
