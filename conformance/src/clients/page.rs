//! A guide of `docs/clients`, which is also the test of a client.
//!
//! `conformance/clients/guides` has what only the test needs: a page for each guide, which begins
//! with an HTML comment that holds TOML ([`Matter`]). The test puts the text after the first marker
//! (`<!-- test -->`) of this page at the first marker of the guide, and so on. The words after the
//! backquotes of a fenced block say how the test uses the block:
//!
//! - ```` ```sh ````: bash runs the block. One of the words `needs`, `jeton` and `soak` may follow
//!   (see [`When`]).
//! - ```` ```LANGUAGE file=NAME ````: the test writes the block to the file.
//! - Any other block with at most one word is only for the reader. Other words are an error.
//!
//! The first block of the language `bash` exports the variables that the guide needs. Readers set
//! them, and then paste the other `bash` blocks and the `sh` blocks of the guide into a shell,
//! without the `soak` blocks.

use std::path::Path;
use std::time::Duration;

use jeton_peers::Error;
use serde::Deserialize;

/// A guide with the blocks that are run.
pub struct Page {
    pub name: String,
    pub title: String,
    pub matter: Matter,
    pub sections: Vec<Section>,
    /// The names of the variables that the guide tells readers to set.
    pub variables: Vec<String>,
    /// What readers paste into a shell after they have set the variables.
    pub pasted: String,
}

/// The properties of a guide.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Matter {
    /// A shell command that prints the client's version.
    pub version: String,
    /// The programs that the guide needs. If one is missing, the guide is not run.
    pub programs: Vec<String>,
    pub packages: Vec<String>,
    /// True if readers follow the guide as root.
    #[serde(default)]
    pub root: bool,
    /// True if the guide fetches something from a package registry.
    #[serde(default)]
    pub network: bool,
    #[serde(default = "two_minutes")]
    pub seconds: u64,
    /// The maximum run time in seconds with the long blocks.
    #[serde(default = "an_hour")]
    pub soak_seconds: u64,
}

const fn two_minutes() -> u64 {
    120
}

const fn an_hour() -> u64 {
    3600
}

pub struct Section {
    pub title: String,
    pub blocks: Vec<Block>,
}

pub enum Block {
    /// A script that bash runs, and when.
    Shell(When, String),
    File(String, String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// Always. If it fails, something is missing on this machine, and the guide is not run.
    Needs,
    /// Only with Jeton, for its own features.
    Jeton,
    /// Only if long runs are requested.
    Soak,
}

/// The line of a guide where the test runs more.
const MARKER: &str = "<!-- test -->\n";

/// The pages with tables of results. They are not guides.
const RESULTS: [&str; 2] = ["README", "sid"];

impl Page {
    /// Returns every guide of the directory, sorted by name. Skips the pages with results.
    pub fn all(directory: &Path) -> Result<Vec<Self>, Error> {
        let tests = directory.join("../../conformance/clients/guides");
        let read = |path: &Path| std::fs::read_to_string(path).map_err(Error::io(path));
        let mut pages = Vec::new();
        for entry in directory.read_dir().map_err(Error::io(directory))? {
            let path = entry.map_err(Error::io(directory))?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_some_and(|ending| ending == "md") && !RESULTS.contains(&&*name) {
                let tests = read(&tests.join(format!("{name}.md")))?;
                pages.push(Self::parse(name, &read(&path)?, &tests)?);
            }
        }
        pages.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(pages)
    }

    fn parse(name: String, guide: &str, tests: &str) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Message(format!("{name}.md: {what}"));
        let (matter, tests) = tests
            .strip_prefix("<!--\n")
            .and_then(|rest| rest.split_once("-->\n"))
            .ok_or_else(|| wrong("no comment with TOML at the start"))?;
        let matter = toml::from_str(matter).map_err(|error| wrong(&error.to_string()))?;
        if guide.matches(MARKER).count() != tests.matches(MARKER).count() {
            return Err(wrong("the guide and its tests have different numbers of markers"));
        }
        let hidden = tests.split(MARKER).skip(1).chain([""]);
        let body: String =
            guide.split(MARKER).zip(hidden).flat_map(|(seen, hidden)| [seen, hidden]).collect();
        let mut sections = sections(&body).map_err(|line| wrong(&format!("unknown block: {line}")))?;
        let title = match sections.first() {
            Some(first) if !first.title.is_empty() => first.title.clone(),
            _ => return Err(wrong("no heading")),
        };
        sections.retain(|section| !section.blocks.is_empty());
        let (variables, pasted) = pasted(guide);
        Ok(Self { name, title, matter, sections, variables, pasted })
    }

    /// Returns the scripts that check whether the guide can run on this machine.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Shell(When::Needs, script) => Some(script.as_str()),
            _ => None,
        })
    }

    pub const fn limit(&self, soak: bool) -> Duration {
        Duration::from_secs(if soak { self.matter.soak_seconds } else { self.matter.seconds })
    }
}

/// Returns the headings and blocks of a guide. Fails with the line that it cannot parse.
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

/// Returns the block whose first line has the words `info` after "```". The result is `Some(None)`
/// if the block is only for the reader, and `None` if the words are unknown.
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

/// Returns the variables that the first `bash` block exports, and the script that readers paste.
/// The script has the other `bash` blocks, the `sh` blocks except `soak`, and commands that write
/// the files.
fn pasted(guide: &str) -> (Vec<String>, String) {
    let (mut variables, mut script) = (None, String::new());
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let text: String =
            lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
        match info.split_whitespace().collect::<Vec<_>>()[..] {
            ["bash"] if variables.is_none() => variables = Some(exported(&text)),
            ["bash"] | ["sh"] | ["sh", "jeton" | "needs"] => script += &text,
            [_, file] => {
                let name = file.trim_start_matches("file=");
                script += &format!("cat >{name} <<'END OF FILE'\n{text}END OF FILE\n");
            }
            _ => {}
        }
    }
    (variables.unwrap_or_default(), script)
}

fn exported(script: &str) -> Vec<String> {
    let commands = script.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = commands.filter_map(|line| line.strip_prefix("export ")).flat_map(str::split_whitespace);
    words.filter_map(|word| word.split_once('=')).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = "# X\n\n<!-- test -->\n## Keys\n```toml\na = 1\n```\n```toml file=x.toml\nb = 2\n```\n\
                         ```sh\n# not a heading\nx sign\n```\n<!-- test -->\n## Nothing to run\n";
    const TESTS: &str = "<!--\nversion = 'x -V'\nprograms = ['x']\npackages = []\n-->\n\n\
                         <!-- test -->\n```sh needs\nx -V\n```\n<!-- test -->\n```sh soak\nx loop\n```\n";

    #[test]
    fn a_guide_is_parsed_to_properties_and_blocks() {
        let page = Page::parse("x".to_owned(), GUIDE, TESTS).expect("a page");
        assert_eq!((&*page.title, &*page.matter.version, page.matter.seconds), ("X", "x -V", 120));
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
    fn readers_paste_the_blocks_that_they_see() {
        let (variables, script) = pasted(
            "```bash\nexport MODULE=/x.so   # the module\nexport TOKEN=demo PIN=1234\n```\n\
             ```sh needs\nfirst\n```\n\
             ```toml file=x.toml\na = 1\n```\n```text\nread only\n```\n```bash\nsecond\n```\n",
        );
        assert_eq!(variables, ["MODULE", "TOKEN", "PIN"]);
        assert_eq!(script, "first\ncat >x.toml <<'END OF FILE'\na = 1\nEND OF FILE\nsecond\n");
    }

    #[test]
    fn an_error_in_a_guide_names_the_file_and_the_problem() {
        for (from, to, said) in [
            ("sh needs", "sh whenever", "x.md: unknown block: ```sh whenever"),
            ("<!--\n", "<--\n", "x.md: no comment with TOML at the start"),
            ("# X\n", "", "x.md: unknown block: ```sh needs"),
            (
                "<!-- test -->\n## K",
                "## K",
                "x.md: the guide and its tests have different numbers of markers",
            ),
            ("version", "verison", "x.md: "),
        ] {
            let replace = |text: &str| text.replace(from, to);
            let error = Page::parse("x".to_owned(), &replace(GUIDE), &replace(TESTS)).err().expect(said);
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
