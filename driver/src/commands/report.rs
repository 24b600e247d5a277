//! `report`: a page of a result store.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jeton_driver::page::{Page, html};
use jeton_driver::{Error, Result, results};

/// Write a page with tables and plots of a result store.
///
/// `jeton-driver pipeline` and `jeton-driver tls` write such stores with --results. The page shows
/// the newest measurement of the store. It is one file that loads no other file.
#[derive(Args)]
pub struct Report {
    /// The store.
    store: PathBuf,
    /// Write the page to this file as HTML.
    #[arg(long, visible_alias = "out")]
    html: PathBuf,
}

impl Report {
    pub fn run(self) -> Result<ExitCode> {
        let page = Page::of(&results::newest(&self.store)?)?;
        let path = &self.html;
        let [store, own] = [&self.store, path].map(|path| path.canonicalize().ok());
        if store.is_some() && store == own {
            return Err(Error::Usage(format!("{} is the store itself", path.display())));
        }
        let mut file = File::create(path).map_err(Error::io(path))?;
        file.write_all(html(&page).as_bytes()).map_err(Error::io(path))?;
        Ok(ExitCode::SUCCESS)
    }
}
