//! The subcommands: their options, and little else. The work is the library's.

pub mod audit;
pub mod backend;
pub mod compare;
pub mod mechanisms;
pub mod migrate;
pub mod pin;
pub mod pipeline;
pub mod report;
pub mod token;
pub mod token_file;
pub mod verify_db;

use jeton_driver::Error;
use jeton_driver::client::Module;
use jeton_peers::Known;

/// Loads and initialises a module by its name or path.
fn open(name: &str) -> Result<Module, Error> {
    let module = Module::load(jeton_peers::library_of(name)?)?;
    module.initialize(Known::named(name).and_then(Known::looking_parameters))?;
    Ok(module)
}

/// Standard output refused a write, for example because its reader has ended.
fn printing(source: std::io::Error) -> Error {
    Error::io("standard output")(source)
}
