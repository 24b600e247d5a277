//! The page of a measurement: tables and plots, as one HTML document without other files.
//!
//! - `contents`, `tls`: the tables and plots of `jeton-driver pipeline` and `jeton-driver tls`.
//! - `html`: writes the contents, and escapes every text.

mod contents;
mod html;
mod tls;

use std::path::Path;

pub use html::html;

use jeton_laboratory::{Machine, Table};

use crate::about::{About, module_text};
use crate::pipeline::ModuleDescription;
use crate::results::Newest;
use crate::selection::shown;
use crate::{Error, Result};

/// The contents of a page, before they are written as HTML.
#[derive(Debug)]
pub struct Page {
    title: String,
    /// Facts about the measurement: a name and a text.
    facts: Vec<(String, String)>,
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    title: String,
    blocks: Vec<Block>,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Table(Table),
    Plot { title: String, svg: String },
}

impl Block {
    fn plot(title: String, draw: impl FnOnce(&str) -> Result<String, String>) -> Result<Self> {
        Ok(Self::Plot { svg: draw(&title).map_err(Error::Failed)?, title })
    }
}

impl Page {
    /// Builds the page of the newest measurement of a store. Fails if the measurement is empty.
    pub fn of(newest: &Newest) -> Result<Self> {
        match newest {
            Newest::Pipeline(one) => contents::page(one),
            Newest::Tls(one) => {
                let modules = one.descriptions.iter().map(|(name, about)| (name.as_str(), about));
                let cases: Vec<_> = one.modules.iter().flat_map(|(_, cases)| cases).collect();
                tls::page(facts(&one.about, &one.started, modules), &cases)
            }
        }
    }
}

/// Returns the facts that every measurement has.
fn facts<'a>(
    about: &About,
    started: &str,
    modules: impl Iterator<Item = (&'a str, &'a ModuleDescription)>,
) -> Vec<(String, String)> {
    let Machine { cpu, cores, memory_kib, system } = &about.machine;
    let memory = memory_kib.map(|kib| format!(", {} GiB of memory", kib.div_ceil(1 << 20)));
    let machine = format!("{cpu}, {cores} cores{}", memory.unwrap_or_default());
    let mut facts = vec![("Machine".to_owned(), machine), ("System".to_owned(), system.clone())];
    facts.push(("Date".to_owned(), started.to_owned()));
    facts.push(("Tool".to_owned(), format!("jeton {}", about.version)));
    let words = about.command.iter().map(|word| short(Path::new(word)));
    facts.push(("Command".to_owned(), words.collect::<Vec<_>>().join(" ")));
    facts.extend(modules.map(|(name, module)| {
        let file = module.library.as_ref().map(|path| format!(", {}", short(path))).unwrap_or_default();
        (format!("Module {}", shown(name)), format!("{}{file}", module_text(module)))
    }));
    facts
}

/// Returns the last part of an absolute path, and other words as they are: others need not know the
/// directories of this machine.
fn short(word: &Path) -> String {
    let last = word.file_name().filter(|_| word.is_absolute());
    last.unwrap_or(word.as_os_str()).to_string_lossy().into_owned()
}
