//! `manual`: writes the manual pages and the completions of shells, for packages.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use jeton_tool::Error;
use jeton_tool::error::STATUSES;

/// Write the manual pages and the completions of shells to a directory.
#[derive(Args)]
pub struct Manual {
    /// The directory, which is made if it does not exist.
    directory: PathBuf,
}

/// The variables of the environment that the tool reads.
const VARIABLES: [(&str, &str); 10] = [
    ("JETON_PIN", "the user's PIN"),
    ("JETON_SO_PIN", "the PIN of the security officer (SO)"),
    ("JETON_NEW_PIN", "the new PIN of pin change and pin unblock"),
    ("JETON_FILE_PIN", "the password of a file that is imported"),
    ("JETON_BACKUP_PASSPHRASE", "the passphrase of a backup"),
    ("JETON_RECORDED", "if it is set, no secret goes to standard output; ceremony run sets it"),
    ("JETON_DIR", "the token directory"),
    ("JETON_CONF", "the configuration file that is read last"),
    ("JETON_MODULE", "the path of Jeton's module"),
    ("NO_COLOR", "if it is set, no text is bold or coloured"),
];

/// The files that the tool reads and writes.
const FILES: [(&str, &str); 4] = [
    ("/etc/jeton/jeton.toml", "the configuration of the system"),
    ("~/.config/jeton/jeton.toml", "the configuration of the user"),
    ("~/.local/share/jeton/tokens", "the token directory, unless JETON_DIR or token-dir names another one"),
    ("~/.local/share/jeton/issued.sqlite", "the list of the certificates that cert issue made"),
];

/// The pages whose commands are the examples. A test runs them.
const PAGES: [&str; 4] = [
    include_str!("../../../docs/tool.md"),
    include_str!("../../../docs/admin.md"),
    include_str!("../../../docs/start/ca.md"),
    include_str!("../../../docs/shares.md"),
];
/// The number of examples of a command that has subcommands.
const FEW: usize = 5;

impl Manual {
    /// Runs the command. `tool` describes all commands and options.
    pub fn run(self, mut tool: Command) -> Result<(), Error> {
        let failed = || Error::io(self.directory.clone());
        fs::create_dir_all(&self.directory).map_err(failed())?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut tool, "jeton", &self.directory).map_err(failed())?;
        }
        tool.build();
        pages(&tool, &self.directory).map_err(failed())?;
        super::out::result(&serde_json::json!({ "directory": self.directory }), "")
    }
}

/// Writes the pages of a command and of those below it.
fn pages(command: &Command, directory: &Path) -> std::io::Result<()> {
    let shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|below| pages(below, directory))?;
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // clap_mangen writes every option here, without its value. Below, each option has its value.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace("\n      ", "\n.br\n");
    writeln!(page, ".SH SYNOPSIS\n{}", usage.replace('-', "\\-"))?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|below| shown(&below)) {
        man.render_subcommands_section(&mut page)?;
    }
    let name = man.get_filename();
    let statuses: Vec<_> = STATUSES.iter().map(|row| (row.number.to_string(), row.meaning)).collect();
    terms(&mut page, "EXIT STATUS", statuses.iter().map(|(number, meaning)| (number.as_str(), *meaning)))?;
    terms(&mut page, "ENVIRONMENT", VARIABLES.into_iter())?;
    terms(&mut page, "FILES", FILES.into_iter())?;
    let is_named = |line: &&str| {
        let words: Vec<_> = line.split(' ').collect();
        (1..=words.len().min(3)).any(|count| format!("{}.1", words[..count].join("-")) == name)
    };
    let most = if command.has_subcommands() { FEW } else { usize::MAX };
    let examples: Vec<_> = PAGES
        .iter()
        .flat_map(|page| page.lines())
        .filter(|line| line.starts_with("jeton "))
        .filter(is_named)
        .take(most)
        .collect();
    if !examples.is_empty() {
        writeln!(page, ".SH EXAMPLES\n.nf")?;
        examples.iter().try_for_each(|example| writeln!(page, "{}", escaped(example)))?;
        writeln!(page, ".fi")?;
    }
    if name == "jeton-agent.1" {
        writeln!(page, ".SH \"SEE ALSO\"\n\\fBjeton\\-agent\\fR(8): the agent itself")?;
    }
    fs::write(directory.join(name), page)
}

/// Writes a section with a list of terms and their meanings.
fn terms<'a>(
    page: &mut Vec<u8>,
    title: &str,
    rows: impl Iterator<Item = (&'a str, &'a str)>,
) -> std::io::Result<()> {
    writeln!(page, ".SH \"{title}\"")?;
    for (term, meaning) in rows {
        writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(meaning))?;
    }
    Ok(())
}

/// Escapes text for roff: a hyphen stays a hyphen, and no line is a request.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace("\n.", "\n\\&.")
}
