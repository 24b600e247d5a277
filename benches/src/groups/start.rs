//! The start with a token that has objects: `C_Initialize`, `C_OpenSession`, `C_Login`. A second
//! group also times the first search.

use jeton_client::{Access, Attribute, Failure, Session, User};

use crate::operation::one_by_one;
use crate::rows::Row;
use crate::suite::{Rows, Suite};
use crate::target::{Home, aes_object};

pub(super) fn groups(objects: usize) -> [String; 2] {
    [format!("start/login/{objects}"), format!("start/find/{objects}")]
}

/// Before and after the measurement, the module of each row is initialised and has no sessions.
pub(super) fn run(suite: &mut Suite, rows: &[&Row], objects: usize) {
    let [login, find] = groups(objects);
    compare(suite, rows, &login, None);
    let label = aes_object(objects / 2, Home::Token).swap_remove(0);
    compare(suite, rows, &find, Some(&label));
}

fn compare(suite: &mut Suite, rows: &[&Row], group: &str, label: Option<&Attribute>) {
    if !suite.wants(group) {
        return;
    }
    let operations: Rows<'_> = rows
        .iter()
        .map(|row| {
            let start = move |()| begin(row, label).unwrap_or_else(|failure| panic!("{failure}"));
            let end = move |session: Session| {
                drop(session);
                finalize(row);
            };
            (row.name.clone(), Ok(one_by_one(|| (), start, end)))
        })
        .collect();
    for row in rows {
        row.restart().unwrap_or_else(|failure| panic!("{}: {failure}", row.name));
        finalize(row);
    }
    suite.compare(group, None, || operations);
    for row in rows {
        row.restart().unwrap_or_else(|failure| panic!("{}: {failure}", row.name));
    }
}

fn finalize(row: &Row) {
    row.module.finalize().unwrap_or_else(|failure| panic!("{}: {failure}", row.name));
}

fn begin(row: &Row, label: Option<&Attribute>) -> Result<Session, Failure> {
    row.module.initialize(row.reserved.as_deref())?;
    let session = row.module.open_session(row.slot(), Access::ReadWrite)?;
    session.login(User::User, Some(&row.pin))?;
    if let Some(label) = label {
        let found = session.find(std::slice::from_ref(label))?;
        assert_eq!(found.len(), 1, "{}", row.name);
    }
    Ok(session)
}
