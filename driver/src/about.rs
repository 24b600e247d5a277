//! The head of every report: the machine and its load, the command, and the version of the tool.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use jeton_laboratory::Machine;
use serde::{Deserialize, Serialize};

use crate::pipeline::ModuleDescription;
use crate::{Error, Result};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    pub machine: Machine,
    /// The load averages of 1, 5 and 15 minutes, at the beginning and at the end.
    pub load: [String; 2],
    pub command: Vec<String>,
    pub version: String,
}

impl About {
    /// Describes a measurement that begins now.
    pub fn this() -> Self {
        Self {
            machine: Machine::this(),
            load: [load(), String::new()],
            command: std::env::args().collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Records the load at the end.
    pub fn end(&mut self) {
        self.load[1] = load();
    }
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

pub(crate) fn module_text(about: &ModuleDescription) -> String {
    format!("{} {} ({})", about.description, about.version, about.manufacturer)
}

pub fn write_json(report: &impl Serialize, mut file: &File, path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(report).map_err(|error| Error::Failed(error.to_string()))?;
    let synced = writeln!(file, "{text}").and_then(|()| match file.sync_all() {
        // A pipe or a terminal cannot be synchronised.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    });
    synced.map_err(Error::io(path))
}
