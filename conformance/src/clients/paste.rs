//! Pastes a guide into a fresh shell, as its readers do: one bash with a new home directory. Its
//! only variables are `HOME`, `PATH` and those that the guide tells readers to set.

use std::fs;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use jeton_peers::{Error, Known};
use tempfile::TempDir;

use crate::page::Page;
use crate::program_path;
use crate::runner::{Outcome, PIN, SO_PIN, TOKEN, free_port, last_words, make_token, output};

/// The last line of the output if the shell ran the whole guide. The line is missing if a command
/// read the rest of the guide as its standard input.
const END: &str = "the end of the guide";

/// Pastes the guide. The token is in its default directory below the home directory.
pub fn run(known: Known, module: &Path, page: &Page, examples: &Path, talk: bool) -> Result<Outcome, Error> {
    if known != Known::Jeton {
        return Ok(Outcome::Absent("--pasted runs guides with Jeton only".to_owned()));
    }
    let home = tempfile::Builder::new().prefix("paste-").tempdir().map_err(Error::io("a directory"))?;
    make_token(module, Command::env_clear, &[("HOME".to_owned(), home.path().into())])?;
    for need in page.needs() {
        if let Some(said) = shell(&home, module, page, examples, need)? {
            return Ok(Outcome::Absent(said));
        }
    }
    Ok(match shell(&home, module, page, examples, &page.pasted)? {
        None => Outcome::Done(vec![page.title.clone()], Vec::new()),
        Some(said) => {
            if talk {
                eprintln!("{}", fs::read_to_string(home.path().join("said")).unwrap_or_default());
            }
            Outcome::Done(Vec::new(), vec![("pasted".to_owned(), said)])
        }
    })
}

/// Runs a script in a new empty directory. If it fails, returns its last output.
fn shell(
    home: &TempDir,
    module: &Path,
    page: &Page,
    examples: &Path,
    script: &str,
) -> Result<Option<String>, Error> {
    let work = tempfile::Builder::new().prefix("work-").tempdir_in(home).map_err(Error::io(home.path()))?;
    let mut input = tempfile::tempfile_in(home).map_err(Error::io(home.path()))?;
    write!(input, "trap 'echo \"at: $BASH_COMMAND\" >&2' ERR\n{script}\necho '{END}'\n")
        .and_then(|()| input.rewind())
        .map_err(Error::io(home.path()))?;
    let mut command = bash(page.matter.root);
    command.env_clear().env("HOME", home.path());
    command.env("PATH", program_path());
    for name in &page.variables {
        match name.as_str() {
            "MODULE" => command.env(name, module),
            "TOKEN" => command.env(name, TOKEN),
            "PIN" => command.env(name, PIN),
            "SO_PIN" => command.env(name, SO_PIN),
            "PORT" => command.env(name, free_port()?),
            "CLIENTS" => command.env(name, examples),
            _ => return Err(Error::Message(format!("{}.md: unknown variable {name}", page.name))),
        };
    }
    let until = Instant::now() + page.limit(false);
    let (ended, said) = output(command.current_dir(&work).stdin(input), home.path(), until)?;
    let complete = said.lines().any(|line| line == END);
    Ok((ended != Some(true) || !complete).then(|| last_words(&said)))
}

/// Returns bash that reads commands from standard input and ends at the first that fails. If this
/// program runs as root, the shell runs as an ordinary user. For a guide that needs root, the shell
/// stays root, but has its own mount and network namespaces.
fn bash(root: bool) -> Command {
    if !rustix::process::geteuid().is_root() {
        let mut command = Command::new("bash");
        command.arg("-e");
        return command;
    }
    let mut command = Command::new("unshare");
    if root {
        let own_names =
            "ip link set lo up && mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && exec bash -e";
        command.args(["--mount", "--net", "bash", "-c", own_names]);
    } else {
        command.args(["--map-user=1000", "--map-group=1000", "bash", "-e"]);
    }
    command
}
