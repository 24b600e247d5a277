//! File size, loading time and memory. A fresh process measures each time and each use of memory.

use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use jeton_client::{Access, Module, User};
use jeton_laboratory::memory::resident;
use jeton_peers::PIN;

use super::{AnyError, child, facts};
use crate::artefacts::{Artefacts, temporary};
use crate::child::{Instance, Objects, Role};
use crate::facts::{Memory, Startup};
use crate::settings::Settings;
use crate::target::{Home, ModuleToken, aes_object};

const BACKEND: &str = "aws-lc";
const LOADS: usize = 21;
const OBJECTS: usize = 100_000;
const FEW_OBJECTS: usize = 10_000;
const MAKERS: usize = 8;

/// Measures our modules only. Prints the results and stores them for the report.
pub fn measure(artefacts: &Artefacts) -> Result<(), AnyError> {
    let mut startup = Startup::default();
    for (name, path) in [("jeton", &artefacts.module), ("jeton-null", &artefacts.null)] {
        let size = fs::metadata(path)?.len();
        println!("{name}: {:.2} MB", size as f64 / 1e6);
        startup.sizes.push((name.to_owned(), size));
    }
    startup.load.push(loads("jeton", &artefacts.module)?);
    let short = Settings::of_environment().short || env::args().any(|argument| argument == "--quick");
    let stored = if short { FEW_OBJECTS } else { OBJECTS };
    for (home, objects) in [(Home::Session, OBJECTS), (Home::Token, stored)] {
        startup.memory.push(memory_of("jeton", &artefacts.module, home, objects)?);
    }
    facts::write(facts::file::STARTUP, &startup)
}

fn loads(row: &str, library: &Path) -> Result<(String, f64, f64, f64), AnyError> {
    let mut times = Vec::new();
    for _ in 0..LOADS {
        let directory = temporary()?;
        let role = Role::Load(Instance::of(library, directory.path(), BACKEND));
        times.push(child::ask::<f64>(child::of_role(&role))?);
    }
    times.sort_by(f64::total_cmp);
    let (median, least, most) = (times[LOADS / 2], times[0], times[LOADS - 1]);
    println!("{row}: loaded and initialised in {median:.2} ms ({least:.2} to {most:.2})");
    Ok((row.to_owned(), median, least, most))
}

/// The child: loads and initialises the module with an empty directory and prints the milliseconds.
pub(crate) fn load(instance: &Instance) -> Result<(), AnyError> {
    let reserved = instance.parameters();
    let start = Instant::now();
    let module = Module::load(&instance.library)?;
    module.initialize(Some(&reserved))?;
    jeton_child::say(&(start.elapsed().as_secs_f64() * 1e3));
    Ok(())
}

fn memory_of(row: &str, library: &Path, home: Home, objects: usize) -> Result<Memory, AnyError> {
    let directory = temporary()?;
    let instance = Instance::of(library, directory.path(), BACKEND);
    let measured = if home == Home::Token {
        // One process makes the objects. A second process, which makes no objects, is measured.
        jeton_child::output(child::of_role(&Role::Memory(instance.clone(), Objects::Store, objects)))?;
        Objects::Stored
    } else {
        Objects::Session
    };
    let grown: f64 = child::ask(child::of_role(&Role::Memory(instance, measured, objects)))?;
    let attributes = aes_object(0, home).iter().map(|attribute| attribute.value.len()).sum();
    let memory = Memory {
        row: row.to_owned(),
        home: home.name().to_owned(),
        objects,
        bytes: grown / objects as f64,
        attributes,
    };
    println!("{row}: {:.0} bytes per object, {objects} {} objects", memory.bytes, home.name());
    Ok(memory)
}

/// The child: makes or loads this number of objects. Prints by how many bytes its memory grew,
/// unless it only stored them.
pub(crate) fn memory(instance: &Instance, kind: Objects, objects: usize) -> Result<(), AnyError> {
    if kind == Objects::Stored {
        return stored(instance, objects);
    }
    let token = ModuleToken::fresh(instance, Home::Session)?;
    let before = resident();
    let (kept, threads) = if kind == Objects::Store { (Home::Token, MAKERS) } else { (Home::Session, 1) };
    token.fill(0..objects, kept, threads, &|| false)?;
    if kind == Objects::Session {
        jeton_child::say(&resident().saturating_sub(before));
    }
    Ok(())
}

fn stored(instance: &Instance, objects: usize) -> Result<(), AnyError> {
    let module = Module::load(&instance.library)?;
    module.initialize(Some(&instance.parameters()))?;
    let before = resident();
    let session = module.open_session(module.slots(true)?[0], Access::ReadWrite)?;
    session.login(User::User, Some(PIN))?;
    // An application that logs in also searches, so the memory of the first search counts.
    let label = aes_object(objects / 2, Home::Token).swap_remove(0);
    assert_eq!(session.find(&[label])?.len(), 1);
    jeton_child::say(&resident().saturating_sub(before));
    Ok(())
}
