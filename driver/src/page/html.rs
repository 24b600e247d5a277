//! Writes a page as HTML. The page is also well-formed XML, so that an XML parser can read it.

use std::fmt::Write;

use jeton_laboratory::Table;
use jeton_laboratory::plots::STYLE;

use super::{Block, Page};

/// The colours and the layout. The page loads nothing.
const CSS: &str = "\
:root{color-scheme:light dark;--text:#1c1c1c;--page:#ffffff;--line:#c8c8c8;--head:#f0f0f0}\
@media(prefers-color-scheme:dark){:root{--text:#e4e4e4;--page:#16181b;--line:#44484d;--head:#24272b}}\
body{color:var(--text);background:var(--page);font:16px/1.5 system-ui,sans-serif;max-width:70rem;\
margin:2rem auto;padding:0 1rem}\
h1,h2{line-height:1.2}dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}\
dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1rem 0}\
th,td{border:1px solid var(--line);padding:.25rem .6rem;text-align:right}td{white-space:nowrap}\
th{background:var(--head)}.name{text-align:left}\
figure{margin:1rem 0;overflow-x:auto}figcaption{font-weight:600}\
svg{color:var(--text);width:100%;min-width:40rem;height:auto}\
@media(max-width:40rem){body{margin:1rem auto}dl{display:block}dd{margin:0 0 .5rem}}";

pub fn html(page: &Page) -> String {
    let mut out = String::new();
    let title = escaped(&page.title);
    let mut put = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    put("<!DOCTYPE html>");
    put("<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">");
    put("<head><meta charset=\"utf-8\"/>");
    put("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>");
    put(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>",
    );
    put(&format!("<title>{title}</title>"));
    put(&format!("<style>{CSS}svg {}</style></head>", STYLE.replace("}[", "}svg [")));
    put(&format!("<body><h1>{title}</h1>\n<dl>"));
    for (name, text) in &page.facts {
        put(&format!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(text)));
    }
    put("</dl>");
    for section in &page.sections {
        put(&format!("<section><h2>{}</h2>", escaped(&section.title)));
        for block in &section.blocks {
            match block {
                Block::Text(text) => put(&format!("<p>{}</p>", escaped(text))),
                Block::Table(one) => put(&table(one)),
                Block::Plot { title, svg } => {
                    let title = escaped(title);
                    let labelled = format!("<svg role=\"img\" aria-label=\"{title}\" ");
                    let svg = svg.replacen("<svg ", &labelled, 1);
                    put(&format!("<figure><figcaption>{title}</figcaption>{svg}</figure>"));
                }
            }
        }
        put("</section>");
    }
    put("</body></html>");
    out
}

fn table(table: &Table) -> String {
    let mut out = "<div class=\"wide\"><table><thead><tr>".to_owned();
    // Writing to a String cannot fail.
    let class = |at| if at < table.names { " class=\"name\"" } else { "" };
    for (at, name) in table.header.iter().enumerate() {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(at), escaped(name));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        let cell = |(at, cell): (usize, &String)| format!("<td{}>{}</td>", class(at), escaped(cell));
        let cells: String = row.iter().enumerate().map(cell).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// Returns a text without characters that have a meaning in HTML or that XML does not allow.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escaped("<a b='c'>&\"\u{0}\n"), "&lt;a b=&#39;c&#39;&gt;&amp;&quot;\u{fffd} ");
    }
}
