//! The rows: the modules on this machine, with a token each.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use jeton_client::{Failure, Module, SlotId};
use jeton_peers::{Known, Sandbox, TokenAccess, open_token};

use crate::artefacts::{Artefacts, parameters};
use crate::facts::RowFacts;
use crate::suite::{ALL, Suite};
use crate::target::{Home, ModuleToken, Outcome};

/// The variable that names more modules: `name=/path/to/module.so,token label,PIN;…`.
pub const MODULES: &str = "JETON_BENCH_MODULES";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Ours, with a crypto library as the backend.
    Ours,
    /// Ours, with the null backend.
    Null,
    /// Another project's.
    Peer,
}

pub struct Row {
    pub name: String,
    pub maker: Maker,
    pub module: Module,
    /// The slot of its token. It can change at the next `C_Initialize`.
    slot: Cell<SlotId>,
    serial: String,
    pub pin: String,
    /// The library parameters of `C_Initialize`.
    pub reserved: Option<String>,
    /// The packages of a peer and of its libraries, with their versions.
    packages: Vec<String>,
}

impl Row {
    /// Opens a session and logs the user in. The keys of the returned token are token objects.
    pub fn token(&self) -> Outcome<ModuleToken> {
        self.open(&self.name, Home::Token)
    }

    /// Like [`token`](Self::token), with session keys. The row has a name of its own.
    pub fn session_token(&self) -> Outcome<ModuleToken> {
        self.open(&format!("{}-session", self.name), Home::Session)
    }

    pub fn slot(&self) -> SlotId {
        self.slot.get()
    }

    /// Calls `C_Finalize` and `C_Initialize`, and finds the slot of the token again.
    pub fn restart(&self) -> Result<(), Failure> {
        // After a failed start the module is not initialised, so a failing `C_Finalize` is not an
        // error.
        let _ = self.module.finalize();
        self.module.initialize(self.reserved.as_deref())?;
        for slot in self.module.slots(true)? {
            if self.module.token_info(slot)?.serial == self.serial {
                self.slot.set(slot);
            }
        }
        Ok(())
    }

    fn open(&self, name: &str, home: Home) -> Outcome<ModuleToken> {
        ModuleToken::open(name, &self.module, self.slot(), &self.pin, home)
            .map_err(|failure| failure.to_string())
    }

    pub fn facts(&self) -> RowFacts {
        let description = match self.module.info() {
            Ok(info) => {
                let named = format!("{}, {} {}", info.manufacturer, info.description, info.version);
                std::iter::once(named).chain(self.packages.clone()).collect::<Vec<_>>().join("; ")
            }
            Err(failure) => failure.to_string(),
        };
        RowFacts { name: self.name.clone(), description, ours: self.maker != Maker::Peer }
    }
}

/// Returns the variables that the peers read from the environment when they are loaded.
pub fn environment(directory: &Path) -> Vec<(String, std::ffi::OsString)> {
    let with_variables = [Known::SoftHsm2, Known::Kryoptic, Known::Craton];
    let sandboxes = with_variables.into_iter().filter_map(|known| sandbox(known, directory).ok());
    sandboxes.flat_map(|sandbox| sandbox.environment).collect()
}

/// Returns every row that this machine has, with fresh tokens below `directory`. Leaves out each
/// row that it lacks.
pub fn open(suite: &mut Suite, directory: &Path, artefacts: &Artefacts) -> Vec<Row> {
    let known = [
        ("jeton", ours(directory, &artefacts.module, "jeton", "aws-lc", Maker::Ours)),
        ("jeton-rc", ours(directory, &artefacts.module, "jeton-rc", "rustcrypto", Maker::Ours)),
        ("jeton-null", null(directory, &artefacts.null)),
        ("softhsm2", peer(Known::SoftHsm2, directory)),
        ("nss", peer(Known::Nss, directory)),
        ("kryoptic", peer(Known::Kryoptic, directory)),
        ("craton", peer(Known::Craton, directory)),
    ];
    let all = known.into_iter().map(|(name, row)| (name.to_owned(), row)).chain(given());
    all.filter_map(|(name, row)| match row {
        Ok(row) => Some(row),
        Err(reason) => {
            suite.leave_out(ALL, &name, reason);
            None
        }
    })
    .collect()
}

/// Returns a row of one of our modules. Each row has its own copy of the file, because a library is
/// loaded once per path and has one state.
fn ours(directory: &Path, library: &Path, name: &str, backend: &str, maker: Maker) -> Outcome<Row> {
    let (copy, tokens) = (directory.join(format!("{name}.so")), directory.join(name));
    let made = fs::create_dir_all(&tokens).and_then(|()| fs::copy(library, &copy));
    made.map_err(|error| format!("{}: {error}", library.display()))?;
    let reserved = Some(parameters(&tokens, backend));
    start(name, maker, &copy, reserved, &TokenAccess::Initialise)
}

/// Returns the row of the module with the null backend, if that module was built.
fn null(directory: &Path, library: &Path) -> Outcome<Row> {
    if !library.is_file() {
        return Err("not built: `cargo bench` without a filter builds it".to_owned());
    }
    ours(directory, library, "jeton-null", "null", Maker::Null)
}

fn peer(known: Known, directory: &Path) -> Outcome<Row> {
    let library = known.library().ok_or("not on this machine")?;
    let sandbox = sandbox(known, directory)?;
    start(known.name(), Maker::Peer, &library, sandbox.reserved, &sandbox.token)
}

fn sandbox(known: Known, directory: &Path) -> Outcome<Sandbox> {
    Sandbox::fresh(known, &directory.join(known.name()), None).map_err(|error| error.to_string())
}

fn given() -> Vec<(String, Outcome<Row>)> {
    let text = env::var(MODULES).unwrap_or_default();
    let items = text.split(';').filter(|item| !item.trim().is_empty());
    items
        .map(|item| match parse(item) {
            Some((name, path, label, pin)) => {
                let access = TokenAccess::Existing { label: Some(label.to_owned()), pin: pin.to_owned() };
                (name.to_owned(), start(name, Maker::Peer, &PathBuf::from(path), None, &access))
            }
            None => (item.to_owned(), Err("is not name=path,label,PIN".to_owned())),
        })
        .collect()
}

fn parse(item: &str) -> Option<(&str, &str, &str, &str)> {
    let (name, rest) = item.trim().split_once('=')?;
    let mut parts = rest.splitn(3, ',');
    Some((name, parts.next()?, parts.next()?, parts.next()?))
}

fn start(
    name: &str,
    maker: Maker,
    library: &Path,
    reserved: Option<String>,
    access: &TokenAccess,
) -> Outcome<Row> {
    let opened = open_token(library, reserved.as_deref(), access);
    let (module, slot, pin) = opened.map_err(|error| error.to_string())?;
    let serial = module.token_info(slot).map_err(|failure| failure.to_string())?.serial;
    let packages = if maker == Maker::Peer { packages(library) } else { Vec::new() };
    Ok(Row { name: name.to_owned(), maker, module, slot: Cell::new(slot), serial, pin, reserved, packages })
}

/// Returns the Debian packages of a module and of the libraries that it is linked with, each with
/// its version. Leaves out the C and C++ runtimes and zlib. For a module that `client/peers/build`
/// built, also returns the versions that it wrote beside the module.
fn packages(library: &Path) -> Vec<String> {
    const RUNTIME: [&str; 4] = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g"];
    let linked = output(Command::new("ldd").arg(library));
    let paths = linked.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let own = library.to_string_lossy().into_owned();
    let mut found: Vec<String> = Vec::new();
    for path in std::iter::once(own).chain(paths.map(str::to_owned)) {
        // A package may list the file without the link from /lib to /usr/lib.
        let real = fs::canonicalize(&path).unwrap_or_else(|_| PathBuf::from(&path));
        let owner = [real, PathBuf::from(&path)]
            .iter()
            .find_map(|path| owner(path))
            .filter(|owner| !RUNTIME.contains(&owner.split(':').next().unwrap_or_default()));
        let Some(owner) = owner else { continue };
        let version = output(Command::new("dpkg-query").args(["-W", "-f", "${Package} ${Version}", &owner]));
        if !version.is_empty() && !found.contains(&version) {
            found.push(version);
        }
    }
    let built = fs::read_to_string(format!("{}.versions", library.display())).unwrap_or_default();
    found.extend(built.lines().map(str::to_owned));
    found
}

fn owner(path: &Path) -> Option<String> {
    let said = output(Command::new("dpkg-query").arg("-S").arg(path));
    Some(said.lines().next()?.rsplit_once(": ")?.0.to_owned())
}

/// Returns the standard output of a command, or nothing if it cannot be run.
fn output(command: &mut Command) -> String {
    let output = command.output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_with_path_label_and_pin() {
        assert_eq!(parse("k=/m.so,my token,12,34"), Some(("k", "/m.so", "my token", "12,34")));
        assert_eq!(parse("/m.so,token,1234"), None);
        assert_eq!(parse("k=/m.so,token"), None);
    }
}
