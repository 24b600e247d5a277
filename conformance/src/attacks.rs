//! Published attacks on PKCS#11 modules, and the attacks of the security review. Each variant has
//! an entry.
//!
//! The attacker is an application that knows the user PIN. Its aim is the bytes of a key that must
//! not be readable, or a use of a key that was not permitted. An attack that reads bytes usually
//! compares them with the known value of the victim. An attack that uses a key succeeds if the
//! module verifies the forged signature, or accepts a call that it must refuse.
//!
//! Denial of service and changes to the files of a token are not part of the table.

use std::ops::Deref;

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, Mechanism, ObjectHandle, Session, User};

use crate::fixture::{Fixture, code_name};
use crate::record::{Section, Verdict};
use crate::task::{Task, Work};

mod allowed;
mod classic;
mod consent;
mod cuts;
mod flags;
mod oracles;
mod points;
mod privacy;
mod tools;
mod trust;

pub use allowed::reason;

/// An attack.
struct Attack {
    /// The publication, or the number of the review's finding.
    source: &'static str,
    /// The target and the method. Each name is unique.
    name: String,
    /// The mechanisms that the attack needs.
    needs: Vec<CK_MECHANISM_TYPE>,
    /// Runs the attack.
    run: Box<dyn Fn(&Attacker<'_>) -> Attempt>,
}

/// True if an attack succeeded.
type Attempt = Result<bool, Stop>;

/// Why an attack ended early.
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
    fn setup(self) -> Result<T, Stop>;
}

impl<T> Setup<T> for Result<T, Failure> {
    fn setup(self) -> Result<T, Stop> {
        self.map_err(Stop::Setup)
    }
}

impl<T> Setup<T> for Result<T, Stop> {
    fn setup(self) -> Result<T, Stop> {
        self.map_err(|stop| match stop {
            Stop::Setup(failure) | Stop::Refused(failure) => Stop::Setup(failure),
        })
    }
}

fn attack(
    source: &'static str,
    name: impl Into<String>,
    needs: &[CK_MECHANISM_TYPE],
    run: impl Fn(&Attacker<'_>) -> Attempt + 'static,
) -> Attack {
    Attack { source, name: name.into(), needs: needs.to_vec(), run: Box::new(run) }
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
    fn as_officer<T>(&self, work: impl FnOnce(&Session) -> Result<T, Failure>) -> Result<T, Failure> {
        self.fixture.logged_out(|session| {
            session.login(User::So, Some(self.fixture.so_pin()))?;
            work(session)
        })
    }

    /// Calls `work` without a login, and then logs the user in again.
    fn logged_out<T>(&self, work: impl FnOnce(&Session) -> Result<T, Failure>) -> Result<T, Failure> {
        self.fixture.logged_out(work)
    }
}

/// Returns every attack.
pub fn tasks() -> Vec<Task> {
    let all = [
        flags::attacks(),
        privacy::attacks(),
        cuts::attacks(),
        trust::attacks(),
        consent::attacks(),
        oracles::attacks(),
        classic::attacks(),
        points::attacks(),
    ];
    all.into_iter().flatten().map(task).collect()
}

fn task(attack: Attack) -> Task {
    let Attack { source, name, needs, run } = attack;
    let label = name.clone();
    let work = move |fixture: &Fixture<'_>| verdict(fixture, &label, &needs, run.as_ref());
    Task { section: Section::Attacks, subject: source.to_owned(), name, work: Work::LoggedIn(Box::new(work)) }
}

fn verdict(
    fixture: &Fixture<'_>,
    name: &str,
    needs: &[CK_MECHANISM_TYPE],
    run: &dyn Fn(&Attacker<'_>) -> Attempt,
) -> Verdict {
    if let Some(missing) = needs.iter().find(|kind| !fixture.lists(**kind)) {
        let named = jeton_client::names::mechanism(*missing);
        return Verdict::Absent(format!("{named} is not offered"));
    }
    let session = match fixture.fresh() {
        Ok(session) => session,
        Err(failure) => return Verdict::Fails(failure.to_string()),
    };
    match run(&Attacker { fixture, session }) {
        Ok(true) => match reason(name) {
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

/// Removes the objects that an attack left on the token.
fn destroy(session: &Session, objects: &[ObjectHandle]) {
    for object in objects {
        // The object may be gone already.
        let _ = session.destroy_object(*object);
    }
}

fn flag(kind: CK_ATTRIBUTE_TYPE, value: bool) -> Attribute {
    Attribute::flag(kind, value)
}

fn mechanism(kind: CK_MECHANISM_TYPE) -> Mechanism {
    Mechanism::new(kind)
}
