//! Examines the database that has the tokens.

use jeton_client::safe_text::shown;
use std::collections::BTreeMap;
use std::path::Path;

use super::Finding;
use crate::Error;
use crate::token_file::{self, Remark};

/// Examines the database that `[store] url` names, and its tokens.
pub(super) fn examine(url: &str, settings: &BTreeMap<&str, String>) -> Result<Vec<Finding>, Error> {
    let place = Path::new(url);
    let state = match token_file::examine_database() {
        Ok(state) => state,
        // The reason is in the log, which goes to standard error by default.
        Err(_) => {
            let problem = "the database cannot be used; the log says why".to_owned();
            let remedy = "docs/postgresql.md has the settings of hosts and servers".to_owned();
            return Ok(vec![Finding::new("database", Some(place), problem, remedy)]);
        }
    };
    let mut findings = Vec::new();
    for Remark { check, problem, remedy } in state.into_iter().flat_map(|state| state.remarks) {
        findings.push(Finding::new(check, Some(place), problem, remedy));
    }
    for token in token_file::all()? {
        let info = token_file::info(&token)?;
        for problem in token_file::damage(&token)? {
            let remedy = "restore the database from a backup of it".to_owned();
            findings.push(Finding::new("damaged", Some(token.path()), problem, remedy));
        }
        let directory = token_file::directory()?;
        let flat = directory.join(&info.serial).with_extension("jeton");
        let files = [token_file::path_of(&directory, &info.serial), flat];
        for file in files.into_iter().filter(|file| file.symlink_metadata().is_ok()) {
            let problem = format!("the database also has the token {} of this file", shown(&info.label));
            let remedy =
                format!("move the older one away; for the file: mv {} ELSEWHERE", super::quoted(&file));
            findings.push(Finding::new("duplicate", Some(&file), problem, remedy));
        }
        findings.extend(super::pins(token.path(), &info, settings));
        findings.extend(super::sealing_key(token.path(), &info, settings));
    }
    Ok(findings)
}

/// Returns a text for the user: the server and the number of its tokens. Returns `None` if the
/// tokens are in files.
pub(super) fn describe() -> Result<Option<String>, Error> {
    let Some(state) = token_file::examine_database()? else { return Ok(None) };
    Ok(Some(format!("{}, tokens: {}", state.description, token_file::all()?.len())))
}
