//! A page of `docs/clients`: the guide to a client, which is its test as well.
//!
//! It opens with an HTML comment that holds TOML ([`Matter`]); its fenced blocks are run or written:
//!
//! - ```` ```sh ````: run by bash; the words `needs`, `jeton` and `soak` after it are those of [`When`];
//! - ```` ```LANGUAGE file=NAME ````: written to the file;
//! - any other block is for the reader alone.

use std::path::Path;
use std::time::Duration;

use jeton_driver::Error;
use serde::Deserialize;

/// A guide, and what is run of it.
pub struct Page {
    /// The name of the file, without its ending.
    pub name: String,
    /// The heading.
    pub title: String,
    /// What the page says of itself.
    pub matter: Matter,
    /// Its parts, in order.
    pub sections: Vec<Section>,
}

/// What stands in the comment at the head of a page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Matter {
    /// What is done with the client, for the table.
    pub done: String,
    /// A shell command that prints the client's version.
    pub version: String,
    /// Without these the page is not run.
    pub programs: Vec<String>,
    /// Debian packages that have them.
    pub packages: Vec<String>,
    /// Something is fetched from a package registry.
    #[serde(default)]
    pub network: bool,
    /// How long the page may take.
    #[serde(default = "two_minutes")]
    pub seconds: u64,
    /// How long it may take with its long runs.
    #[serde(default = "an_hour")]
    pub soak_seconds: u64,
}

const fn two_minutes() -> u64 {
    120
}

const fn an_hour() -> u64 {
    3600
}

/// What is between two headings.
pub struct Section {
    /// The heading.
    pub title: String,
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
}

/// A block that is not for the reader alone.
pub enum Block {
    /// Run by bash.
    Shell(When, String),
    /// Written to the file.
    File(String, String),
}

/// When a block is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// Always; where it fails, something is not on this machine, and the page is not run.
    Needs,
    /// Only with Jeton: the block is about something of its own.
    Jeton,
    /// Only where long runs are asked for.
    Soak,
}

impl Page {
    /// Every page of the directory, by name; its `README.md` is none.
    pub fn all(directory: &Path) -> Result<Vec<Self>, Error> {
        let mut pages = Vec::new();
        for entry in directory.read_dir().map_err(Error::io(directory))? {
            let path = entry.map_err(Error::io(directory))?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_some_and(|ending| ending == "md") && name != "README" {
                let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
                pages.push(Self::parse(name, &text)?);
            }
        }
        pages.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(pages)
    }

    fn parse(name: String, text: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Usage(format!("{name}.md: {what}"));
        let (matter, body) = text
            .strip_prefix("<!--\n")
            .and_then(|rest| rest.split_once("-->\n"))
            .ok_or_else(|| wrong("no comment with TOML at its head"))?;
        let matter = toml::from_str(matter).map_err(|error| wrong(&error.to_string()))?;
        let mut sections = sections(body).map_err(|line| wrong(&format!("not understood: {line}")))?;
        let title = match sections.first() {
            Some(first) if !first.title.is_empty() => first.title.clone(),
            _ => return Err(wrong("no heading")),
        };
        sections.retain(|section| !section.blocks.is_empty());
        Ok(Self { name, title, matter, sections })
    }

    /// How long the page may take.
    pub const fn limit(&self, soak: bool) -> Duration {
        Duration::from_secs(if soak { self.matter.soak_seconds } else { self.matter.seconds })
    }
}

/// The headings and blocks of a page; or the line that is not understood.
fn sections(body: &str) -> Result<Vec<Section>, String> {
    let mut sections = vec![];
    let mut lines = body.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
        {
            sections.push(Section { title: title.to_owned(), blocks: Vec::new() });
        } else if let Some(info) = line.strip_prefix("```") {
            let text =
                lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
            let section = sections.last_mut().ok_or_else(|| line.to_owned())?;
            section.blocks.extend(block(info, text).ok_or_else(|| line.to_owned())?);
        }
    }
    Ok(sections)
}

/// The block after "```": `Some(None)` where it is for the reader alone, `None` where its words are not known.
fn block(info: &str, text: String) -> Option<Option<Block>> {
    let words: Vec<_> = info.split_whitespace().collect();
    Some(match words[..] {
        ["sh"] => Some(Block::Shell(When::Always, text)),
        ["sh", "needs"] => Some(Block::Shell(When::Needs, text)),
        ["sh", "jeton"] => Some(Block::Shell(When::Jeton, text)),
        ["sh", "soak"] => Some(Block::Shell(When::Soak, text)),
        [_, file] => Some(Block::File(file.strip_prefix("file=")?.to_owned(), text)),
        [] | [_] => None,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<!--\ndone = 'signs'\nversion = 'x -V'\nprograms = ['x']\npackages = []\n-->\n# X\n\n\
                        ```sh needs\nx -V\n```\n## Keys\n```toml\na = 1\n```\n```toml file=x.toml\nb = 2\n```\n\
                        ```sh\n# not a heading\nx sign\n```\n```sh soak\nx loop\n```\n## Nothing to run\n";

    #[test]
    fn a_page_is_its_matter_and_the_blocks_between_its_headings() {
        let page = Page::parse("x".to_owned(), PAGE).expect("a page");
        assert_eq!((&*page.title, &*page.matter.done, page.matter.seconds), ("X", "signs", 120));
        let titles: Vec<_> = page.sections.iter().map(|section| &*section.title).collect();
        assert_eq!(titles, ["X", "Keys"]);
        assert!(
            matches!(&page.sections[0].blocks[..], [Block::Shell(When::Needs, text)] if text == "x -V\n")
        );
        assert!(matches!(
            &page.sections[1].blocks[..],
            [Block::File(name, toml), Block::Shell(When::Always, sign), Block::Shell(When::Soak, _)]
                if name == "x.toml" && toml == "b = 2\n" && sign == "# not a heading\nx sign\n"
        ));
    }

    #[test]
    fn a_page_that_is_not_understood_is_named_with_the_line() {
        for (from, to, said) in [
            ("sh needs", "sh whenever", "x.md: not understood: ```sh whenever"),
            ("<!--", "<--", "x.md: no comment with TOML at its head"),
            ("# X\n", "", "x.md: not understood: ```sh needs"),
            ("done", "doen", "x.md: "),
        ] {
            let error = Page::parse("x".to_owned(), &PAGE.replace(from, to)).err().expect(said);
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
