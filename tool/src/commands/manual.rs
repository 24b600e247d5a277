//! `manual`: writes the manual pages and the completions of shells, for packages.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
const VARIABLES: [(&str, &str); 9] = [
    ("JETON_PIN", "the user's PIN"),
    ("JETON_SO_PIN", "the PIN of the security officer (SO)"),
    ("JETON_NEW_PIN", "the new PIN of pin change and pin unblock"),
    ("JETON_FILE_PIN", "the password of a file that is imported"),
    ("JETON_BACKUP_PASSPHRASE", "the passphrase of a backup"),
    ("JETON_DIR", "the token directory"),
    ("JETON_CONF", "the configuration file that is read last"),
    ("JETON_MODULE", "the path of Jeton's module"),
    ("NO_COLOR", "if it is set, no text is bold"),
];

/// The files that the tool reads and writes.
const FILES: [(&str, &str); 4] = [
    ("/etc/jeton/jeton.toml", "the configuration of the system"),
    ("~/.config/jeton/jeton.toml", "the configuration of the user"),
    ("~/.local/share/jeton/tokens", "the token directory, unless JETON_DIR or token-dir names another one"),
    ("~/.local/share/jeton/issued.sqlite", "the list of the certificates that cert issue made"),
];

/// Examples, by the name of their page.
const EXAMPLES: [(&str, &str); 25] = [
    ("jeton", "jeton token init --label web"),
    ("jeton", "jeton key generate --token web --type ec:p256 --label www"),
    ("jeton", "jeton csr --token web --label www --subject CN=www.example.org --out www.csr"),
    ("jeton-token", "jeton token list --json"),
    ("jeton-token-init", "jeton token init --label web --if-absent --pin-file pin --so-pin-file so-pin"),
    ("jeton-token-delete", "jeton token delete --token web --yes"),
    ("jeton-pin", "jeton pin unblock --token web"),
    ("jeton-object", "jeton object list --token web --login --long"),
    ("jeton-object-list", "jeton object list --token web --class private --login"),
    ("jeton-object-import", "jeton object import settings.bin --token web --label settings"),
    ("jeton-object-delete", "jeton object delete --token web --label old --yes"),
    ("jeton-key", "jeton key generate --token web --type ml-dsa-65 --label pq --if-absent"),
    ("jeton-key-generate", "jeton key generate --token web --type rsa:3072 --label rsa --id 01"),
    ("jeton-key-import", "jeton key import key.pem --token web --label imported"),
    ("jeton-key-derive", "jeton key derive peer.pem --token web --with ec --type aes:256 --label shared"),
    (
        "jeton-cert",
        "jeton cert self-sign --token ca --label root --subject CN=Root --ca --import --out root.pem",
    ),
    (
        "jeton-cert-issue",
        "jeton cert issue www.csr --token ca --label root --profile tls-server --out www.pem",
    ),
    ("jeton-cert-revoke", "jeton cert revoke 4f0a... --reason key-compromise"),
    ("jeton-crl", "jeton crl --token ca --label root --days 7 --out root.crl"),
    ("jeton-ocsp", "jeton ocsp request.der --token ca --label root --out response.der"),
    ("jeton-ocsp", "jeton ocsp --listen 127.0.0.1:8080 --token ca --label root"),
    ("jeton-sign", "jeton sign document --token web --label rsa --out document.sig"),
    ("jeton-verify", "jeton verify document --token web --label rsa --signature document.sig"),
    ("jeton-backup", "jeton backup create web.backup --token web --recipients-file recipients"),
    ("jeton-doctor", "jeton doctor --repair"),
];

impl Manual {
    /// Runs the command. `tool` describes all commands and options.
    pub fn run(self, mut tool: Command) -> Result<ExitCode, Error> {
        let failed = || Error::io(self.directory.clone());
        fs::create_dir_all(&self.directory).map_err(failed())?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut tool, "jeton", &self.directory).map_err(failed())?;
        }
        tool.build();
        pages(&tool, &self.directory).map_err(failed())?;
        super::out::result(&serde_json::json!({ "directory": self.directory }), "")?;
        Ok(ExitCode::SUCCESS)
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
    man.render_synopsis_section(&mut page)?;
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
    let examples: Vec<_> = EXAMPLES.iter().filter(|(page, _)| name == format!("{page}.1")).collect();
    if !examples.is_empty() {
        writeln!(page, ".SH EXAMPLES\n.nf")?;
        examples.iter().try_for_each(|(_, example)| writeln!(page, "{}", escaped(example)))?;
        writeln!(page, ".fi")?;
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
