//! Published attacks on PKCS#11 modules, and the attacks of four security reviews. Each variant
//! has an entry.
//!
//! The attacker is an application that knows the user PIN. Its aim is the bytes of a key that must
//! not be readable, or a use of a key that was not permitted. An attack that reads bytes usually
//! compares them with the known value of the victim. An attack that uses a key succeeds if the
//! module verifies the forged signature, or accepts a call that it must refuse.
//!
//! Denial of service and changes to the files of a token are not part of the table.
//!
//! # How to add an attack
//!
//! An attack is a row: its source, its name, the mechanisms that it needs, what the owner prepares,
//! and the calls of the attacker with the outcome that makes them a success. Choose the file whose
//! first lines name the source.
//!
//! ```ignore
//! t.row(CLULOW, "wrap and decrypt with a known key", &[ECB], aes(Wrappable)).reads(|a, victim| {
//!     let own = a.import(known(&[CKA_WRAP, CKA_DECRYPT]))?;
//!     a.decrypted(ECB, own, &a.wrapped(ECB, own, victim)?)
//! });
//! ```
//!
//! - The owner prepares a secret key (`Template`, such as `aes`, `base`, `victim`), a key pair
//!   (`Pair`, such as `rsa`, `ec`), a tuple of two of them, what `owner(|a| ...)` returns, or
//!   nothing (`()`). The closure gets the handles. `keys.rs` has these words.
//! - The outcomes are `reads` (the closure returns the value of the victim), `yields` (other
//!   bytes), `accepted` (the module accepts every call) and `holds` (the closure returns true).
//! - `tools.rs` has the calls of the attacker. The type of a mechanism stands for the mechanism
//!   with a usual parameter; `Structure` makes any other parameter. A call that fails with `?`
//!   means that the module resisted. If the owner makes the call, add `.setup()`.
//! - A family of attacks is one row in a loop over mechanisms, attributes or key types. If rows
//!   have more in common, a closure starts the row: `let sign = |how| t.row(...)`.
//! - `a.another()` is the attacker in a second session.
//! - Leave the objects where they are: after each attack, those on the token are destroyed.
//!
//! If PKCS#11 allows the attack, add the beginning of its name to `allowed.rs`. Then write
//! docs/attacks.md again.

use std::cell::RefCell;
use std::ops::Deref;

use cryptoki_sys::*;
use jeton_client::{Failure, Session, User};

use self::keys::{Prepare, VICTIM, flag};
use crate::fixture::{Answer, Fixture, code_name};
use crate::record::{Section, Verdict};
use crate::task::{Task, Work};

mod allowed;
mod classic;
mod composites;
mod consent;
mod counted;
mod cuts;
mod flags;
mod flows;
mod keys;
mod oracles;
mod points;
mod privacy;
mod roles;
mod tools;
mod trust;
mod types;
mod wraps;

// The sources of attacks in several files.
const BORTOLOZZO: &str = "Bortolozzo et al. 2010";
const CLULOW: &str = "Clulow 2003";
const RULE: &str = "PKCS#11 3.2";

type Tried<T> = Result<T, Stop>;

enum Stop {
    /// A step of the victim's owner failed, so this module cannot be attacked in this way.
    Setup(Failure),
    /// The module refused a step of the attacker.
    Refused(Failure),
}

/// A failure means that the module refused a step of the attacker, unless [`Setup::setup`] marks
/// the step as the owner's.
impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

/// Marks a step that the owner of the victim takes.
trait Setup<T> {
    /// Returns the result. If the step failed, the attack cannot be tried.
    fn setup(self) -> Tried<T>;
}

impl<T, E: Into<Stop>> Setup<T> for Result<T, E> {
    fn setup(self) -> Tried<T> {
        self.map_err(|stop| match stop.into() {
            Stop::Setup(failure) | Stop::Refused(failure) => Stop::Setup(failure),
        })
    }
}

/// The attacks, in the order of the document.
#[derive(Default)]
struct Table(RefCell<Vec<Task>>);

impl Table {
    /// Starts a row: the source, the name, the mechanisms, and what the owner prepares. The methods
    /// of [`Row`] finish it.
    fn row<P: Prepare>(
        &self,
        source: &'static str,
        name: impl Into<String>,
        needs: &[CK_MECHANISM_TYPE],
        owner: P,
    ) -> Row<'_, P> {
        Row { table: self, source, name: name.into(), needs: needs.to_vec(), owner }
    }
}

#[must_use]
struct Row<'t, P> {
    table: &'t Table,
    /// The publication, or the number of the review's finding.
    source: &'static str,
    /// The target and the method. Each name is unique.
    name: String,
    needs: Vec<CK_MECHANISM_TYPE>,
    owner: P,
}

impl<P: Prepare + 'static> Row<'_, P> {
    /// The attack succeeds if the closure returns true.
    fn holds(self, act: impl Fn(&Attacker<'_>, P::Made) -> Tried<bool> + 'static) {
        let Self { table, source, name, needs, owner } = self;
        let title = name.clone();
        let work = Work::LoggedIn(Box::new(move |fixture| {
            verdict(fixture, &title, &needs, |a| act(a, owner.prepare(a).setup()?))
        }));
        table.0.borrow_mut().push(Task { section: Section::Attacks, subject: source.to_owned(), name, work });
    }

    /// The attack succeeds if the module accepts every call.
    fn accepted<T>(self, act: impl Fn(&Attacker<'_>, P::Made) -> Tried<T> + 'static) {
        self.holds(move |a, made| act(a, made).map(|_| true));
    }

    /// The attack succeeds if the closure returns these bytes.
    fn yields(
        self,
        wanted: impl AsRef<[u8]> + 'static,
        act: impl Fn(&Attacker<'_>, P::Made) -> Tried<Vec<u8>> + 'static,
    ) {
        self.holds(move |a, made| Ok(act(a, made)? == wanted.as_ref()));
    }

    /// The attack succeeds if the closure returns the value of the victim.
    fn reads(self, act: impl Fn(&Attacker<'_>, P::Made) -> Tried<Vec<u8>> + 'static) {
        self.yields(VICTIM, act);
    }
}

/// A session of the attacker. It also acts for the owner of the victims.
struct Attacker<'a> {
    fixture: &'a Fixture<'a>,
    session: Session,
}

impl Deref for Attacker<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Attacker<'_> {
    /// Calls `work` as the SO, and then logs the user in again. The logout destroys the private
    /// session objects.
    fn as_officer<T>(&self, work: impl FnOnce(&Session) -> Answer<T>) -> Tried<T> {
        self.logged_out(|session| {
            session.login(User::So, Some(self.fixture.so_pin()))?;
            work(session)
        })
    }

    /// Calls `work` without a login, and then logs the user in again.
    fn logged_out<T>(&self, work: impl FnOnce(&Session) -> Answer<T>) -> Tried<T> {
        Ok(self.fixture.logged_out(work)?)
    }

    /// Destroys the objects that an attack left on the token. Only the SO can destroy a trusted
    /// key.
    fn clean_up(&self) {
        let left = || self.find(&[flag(CKA_TOKEN, true)]).unwrap_or_default();
        left().into_iter().for_each(|object| drop(self.destroy_object(object)));
        let trusted = left();
        if !trusted.is_empty() {
            let destroy = |session: &Session| trusted.iter().try_for_each(|key| session.destroy_object(*key));
            let _ = self.as_officer(destroy);
        }
    }
}

pub fn tasks() -> Vec<Task> {
    let table = Table::default();
    flags::attacks(&table);
    privacy::attacks(&table);
    cuts::attacks(&table);
    trust::attacks(&table);
    consent::attacks(&table);
    oracles::attacks(&table);
    classic::attacks(&table);
    points::attacks(&table);
    wraps::attacks(&table);
    flows::attacks(&table);
    counted::attacks(&table);
    composites::attacks(&table);
    roles::attacks(&table);
    types::attacks(&table);
    table.0.into_inner()
}

/// Tries an attack, and removes what it left.
fn verdict(
    fixture: &Fixture<'_>,
    name: &str,
    needs: &[CK_MECHANISM_TYPE],
    run: impl FnOnce(&Attacker<'_>) -> Tried<bool>,
) -> Verdict {
    if let Some(missing) = needs.iter().find(|kind| !fixture.lists(**kind)) {
        return Verdict::Absent(format!("{} is not offered", jeton_client::names::mechanism(*missing)));
    }
    let session = match fixture.fresh() {
        Ok(session) => session,
        Err(failure) => return Verdict::Fails(failure.to_string()),
    };
    let attacker = Attacker { fixture, session };
    let outcome = run(&attacker);
    attacker.clean_up();
    match outcome {
        Ok(true) => match allowed::reason(name) {
            Some(reason) if !fixture.strict => Verdict::Allowed(reason.to_owned()),
            _ => Verdict::Succeeded,
        },
        Ok(false) => Verdict::Resisted("another result".to_owned()),
        Err(Stop::Setup(failure)) => Verdict::Absent(format!("set-up: {failure}")),
        Err(Stop::Refused(failure)) if failure.code == CKR_FUNCTION_NOT_SUPPORTED => {
            Verdict::Absent(format!("{} is not supported", failure.function))
        }
        Err(Stop::Refused(failure)) => {
            Verdict::Resisted(format!("{}: {}", failure.function, code_name(failure.code)))
        }
    }
}
