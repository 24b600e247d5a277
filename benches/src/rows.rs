//! The rows: which modules there are, and a token for each.

use std::cell::Cell;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use jeton_driver::client::{Failure, Module, SlotId};
use jeton_driver::peers::{self, Known, Seat};
use jeton_driver::pipeline::TokenAccess;

use crate::artefacts::Artefacts;
use crate::facts::RowFacts;
use crate::target::{Home, ModuleToken, Outcome};

/// The variable that names more modules: `name=/path/to/module.so,token label,PIN;…`.
pub const MODULES: &str = "JETON_BENCH_MODULES";

/// Whose module it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Ours, with a backend that computes.
    Ours,
    /// Ours, with the null backend.
    Null,
    /// Somebody else's.
    Peer,
}

/// A module with a token, initialised.
pub struct Row {
    /// As the tables call it.
    pub name: String,
    /// Whose it is.
    pub maker: Maker,
    /// The module.
    pub module: Module,
    /// The slot of its token, which may be another after the next `C_Initialize`.
    slot: Cell<SlotId>,
    /// The token's serial.
    serial: String,
    /// The user's PIN.
    pub pin: String,
    /// The library parameters of `C_Initialize`.
    pub reserved: Option<String>,
}

impl Row {
    /// A session with the user logged in, whose keys are token objects.
    pub fn token(&self) -> Outcome<ModuleToken> {
        self.open(&self.name, Home::Token)
    }

    /// The same with session keys, as a row of its own.
    pub fn session_token(&self) -> Outcome<ModuleToken> {
        self.open(&format!("{}-session", self.name), Home::Session)
    }

    /// The slot of its token.
    pub fn slot(&self) -> SlotId {
        self.slot.get()
    }

    /// `C_Finalize` and `C_Initialize`, and looks where the token is now.
    pub fn restart(&self) -> Result<(), Failure> {
        // A start that failed has left the module as it is: then there is nothing to end.
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

    /// What the report says of it.
    pub fn facts(&self) -> RowFacts {
        let description = match self.module.info() {
            Ok(info) => format!("{}, {} {}", info.manufacturer, info.description, info.version),
            Err(failure) => failure.to_string(),
        };
        RowFacts { name: self.name.clone(), description, ours: self.maker != Maker::Peer }
    }
}

/// The library parameters of a module of ours with its tokens in that directory. The KDF of the PIN is made to cost
/// nothing, since it is to cost much and would hide everything else.
pub fn parameters(directory: &Path, backend: &str) -> String {
    let directory = directory.display();
    format!("token-dir = '{directory}', backend = '{backend}', pin = {{ memory-kib = 8, passes = 1 }}")
}

/// The variables that the peers want to find in the environment before they are loaded.
pub fn environment(directory: &Path) -> Vec<(String, std::ffi::OsString)> {
    let seat = seat(Known::SoftHsm2, directory);
    seat.map(|seat| seat.environment).unwrap_or_default()
}

/// Every row that this machine has, with fresh tokens below `directory`; a line for each that it has not.
pub fn open(directory: &Path, artefacts: &Artefacts) -> Vec<Row> {
    let known = [
        ("jeton", ours(directory, &artefacts.module, "jeton", "aws-lc", Maker::Ours)),
        ("jeton-rc", ours(directory, &artefacts.module, "jeton-rc", "rustcrypto", Maker::Ours)),
        ("jeton-null", ours(directory, &artefacts.null, "jeton-null", "null", Maker::Null)),
        ("softhsm2", peer(Known::SoftHsm2, directory)),
        ("nss", peer(Known::Nss, directory)),
    ];
    let all = known.into_iter().map(|(name, row)| (name.to_owned(), row)).chain(given());
    all.filter_map(|(name, row)| match row {
        Ok(row) => Some(row),
        Err(reason) => {
            println!("row {name} left out: {reason}");
            None
        }
    })
    .collect()
}

/// A module of ours. Each row has a copy of the file: a library is loaded once under a name, and has one state.
fn ours(directory: &Path, library: &Path, name: &str, backend: &str, maker: Maker) -> Outcome<Row> {
    let (copy, tokens) = (directory.join(format!("{name}.so")), directory.join(name));
    let made = fs::create_dir_all(&tokens).and_then(|()| fs::copy(library, &copy));
    made.map_err(|error| format!("{}: {error}", library.display()))?;
    let reserved = Some(parameters(&tokens, backend));
    start(name, maker, &copy, reserved, &TokenAccess::Initialise)
}

fn peer(known: Known, directory: &Path) -> Outcome<Row> {
    let library = known.library().ok_or("not on this machine")?;
    let seat = seat(known, directory)?;
    start(known.name(), Maker::Peer, &library, seat.reserved, &seat.token)
}

fn seat(known: Known, directory: &Path) -> Outcome<Seat> {
    Seat::fresh(known, &directory.join(known.name()), None).map_err(|error| error.to_string())
}

/// The modules of [`MODULES`].
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
    let module = Module::load(library).map_err(|error| error.to_string())?;
    module.initialize(reserved.as_deref()).map_err(|failure| failure.to_string())?;
    let (slot, pin) = peers::prepare_token(&module, access).map_err(|error| error.to_string())?;
    let serial = module.token_info(slot).map_err(|failure| failure.to_string())?.serial;
    Ok(Row { name: name.to_owned(), maker, module, slot: Cell::new(slot), serial, pin, reserved })
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
