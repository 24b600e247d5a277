//! Writes a page as Markdown. A plot is an image with a `data:` URL, which contains the SVG.

use jeton_laboratory::plots::standalone;

use super::{Block, Page};

pub fn markdown(page: &Page) -> String {
    let mut out = format!("# {}\n\n", escaped(&page.title));
    for (name, text) in &page.facts {
        out += &format!("- {}: {}\n", escaped(name), escaped(text));
    }
    for section in &page.sections {
        out += &format!("\n## {}\n", escaped(&section.title));
        for block in &section.blocks {
            out.push('\n');
            out += &match block {
                Block::Text(text) => escaped(text) + "\n",
                Block::Table(table) => table.markdown(escaped),
                Block::Plot(plot) => {
                    let image = base64(standalone(&plot.svg).as_bytes());
                    format!("![{}](data:image/svg+xml;base64,{image})\n", escaped(&plot.title))
                }
            };
        }
    }
    out
}

/// Returns the text on one line. Escapes the characters that have a meaning in Markdown or HTML,
/// and replaces control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '!' | '~' | '$' => {
                out.push('\\');
                out.push(character);
            }
            // A program that shows the page must not turn an address into a link.
            ':' => out.push_str("&#58;"),
            '@' => out.push_str("&#64;"),
            blank if blank.is_whitespace() => out.push(' '),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Encodes bytes in Base64 (RFC 4648, 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let is_padding = digit > chunk.len();
            let index = (word >> (18 - 6 * digit)) as usize & 63;
            out.push(if is_padding { '=' } else { DIGITS[index] as char });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, 10.
    #[test]
    fn base64_matches_the_published_examples() {
        let known = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in known {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn a_text_cannot_add_a_column_a_link_or_an_element() {
        assert_eq!(escaped("a|b\n[x](y) <b>"), "a\\|b \\[x\\](y) &lt;b&gt;");
        assert_eq!(escaped("https://example"), "https&#58;//example");
    }
}
