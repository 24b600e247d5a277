//! `key dates`: sets the first and the last day of a key. They restrict nothing: programs and
//! `inventory` read them.

use clap::Args;
use cryptoki_sys::{CKA_CLASS, CKA_END_DATE, CKA_ID, CKA_START_DATE};
use jeton_tool::client::{Access, Attribute};
use jeton_tool::object::describe;
use jeton_tool::time::day;
use jeton_tool::{Cause, Error};

use crate::commands::object::show;
use crate::commands::target::{Chosen, Need};

/// The first and the last day of a key.
#[derive(Args)]
pub(super) struct Dates {
    /// The first day of the key (2028-01-31), how far away it is (30d, 4w), or none. It restricts
    /// nothing.
    #[arg(long, value_parser = bytes, value_name = "DAY")]
    start: Option<Day>,
    /// The last day of the key (2028-01-31), how far away it is (730d, 104w), or none. It restricts
    /// nothing; `jeton inventory --within` lists keys that end soon.
    #[arg(long, value_parser = bytes, value_name = "DAY")]
    end: Option<Day>,
}

/// A `CK_DATE`.
#[derive(Clone)]
struct Day(Vec<u8>);

fn bytes(text: &str) -> Result<Day, String> {
    day(text).map(Day)
}

impl Dates {
    /// Returns `CKA_START_DATE` and `CKA_END_DATE`, each if its option is there.
    pub(super) fn attributes(&self) -> Vec<Attribute> {
        let dates = [(CKA_START_DATE, &self.start), (CKA_END_DATE, &self.end)];
        let attribute =
            |(kind, day): (_, &Option<Day>)| Some(Attribute::bytes(kind, day.as_ref()?.0.clone()));
        dates.into_iter().filter_map(attribute).collect()
    }
}

#[derive(Args)]
pub(super) struct SetDates {
    #[command(flatten)]
    dates: Dates,
    #[command(flatten)]
    chosen: Chosen,
}

impl SetDates {
    pub(super) fn run(self) -> Result<(), Error> {
        let changes = self.dates.attributes();
        if changes.is_empty() {
            return Err(Error::Usage("--start or --end says which day to set".to_owned()));
        }
        if self.chosen.objects.is_all()? {
            return Err(Error::Usage("choose the key with --label, --id or --uri".to_owned()));
        }
        let (opened, session) = self.chosen.session(Access::ReadWrite, Need::Login)?;
        let found = self.chosen.objects.find(&session, &["private", "public", "secret-key"])?;
        let [first, others @ ..] = &found[..] else {
            return Err(Cause::NotFound.error("no such key; `jeton key list` shows the keys"));
        };
        // The two halves of a pair have one ID and different classes.
        let [id, class] = [CKA_ID, CKA_CLASS].map(|kind| session.bytes(*first, kind));
        let is_half = |other| session.bytes(other, CKA_ID) == id && session.bytes(other, CKA_CLASS) != class;
        if others.len() > 1 || others.iter().any(|other| !is_half(*other)) {
            let text = format!("{} keys fit; choose one with --label, --id or --uri", found.len());
            return Err(Error::Failed(text));
        }
        found.iter().try_for_each(|key| session.set_attributes(*key, &changes))?;
        show(&found.iter().map(|key| describe(&session, &opened.info, *key)).collect::<Vec<_>>())
    }
}
