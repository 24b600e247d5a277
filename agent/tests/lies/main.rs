//! A hostile agent: each field of each answer to a list of calls is another one. The client module
//! writes nothing beyond a buffer or for a call that failed, every call ends in time with a code of
//! the device, and the module goes on with an honest agent.
//!
//! `JETON_LIES` is a seed, which repeats the lies.

#[path = "../common/mod.rs"]
mod common;

mod application;
mod guarded;
mod liar;

use application::{Application, CASES, Outcome};
use common::*;
use jeton_child::Random;
use liar::{Plan, Plans};

/// A round ends within this time.
const LONG: Duration = Duration::from_secs(120);
/// A call ends within this time, and what a busy host adds.
const LIMIT: Duration = Duration::from_secs(15 + 5);
/// A usual run has one of this number of lies.
const PART: u64 = 8;
/// The rounds with many lies.
const STORMS: u64 = 40;

/// The functions of a case, and their codes.
type Codes = Vec<(String, CK_RV)>;

/// The client process: the directory of its agent.
#[derive(Serialize, Deserialize)]
struct Role(PathBuf);

/// What the client process does next.
#[derive(Serialize, Deserialize)]
enum Order {
    Run(usize),
    Renew,
}

/// Not a test by itself: the client process.
#[test]
fn client() {
    let Some(Role(directory)) = jeton_child::role::<Role>().transpose().expect("a role") else { return };
    let parameters =
        format!("agent = {{ address = 'unix:{}', timeout-seconds = 1 }}", directory.join("liar").display());
    let mut application = Application::prepare(parameters);
    jeton_child::say(&Outcome::default());
    while let Some(order) = jeton_child::heard() {
        match order.expect("an order") {
            Order::Run(case) => CASES[case](&mut application),
            Order::Renew => application.renew(),
        }
        jeton_child::say(&std::mem::take(&mut application.outcome));
    }
    process::exit(0);
}

/// A client process, its liar and its agent.
struct Stage {
    _directory: tempfile::TempDir,
    _agent: Agent,
    plans: Plans,
    client: Child,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let agent = Agent::start(directory.path());
        let plans = liar::start(&directory.path().join("liar"), agent.socket());
        let role = Role(directory.path().to_owned());
        let mut client = Child::start(&mut jeton_child::of_test("client", &role)).expect("a client");
        client.hear::<Outcome>(LONG).expect("a client");
        Self { _directory: directory, _agent: agent, plans, client }
    }

    /// Gives an order while the liar has a plan. Returns what happened, or what is wrong.
    fn order(&mut self, order: &Order, plan: Plan) -> Result<Outcome, String> {
        *self.plans.lock().expect("a plan") = plan;
        self.client.tell(order);
        let outcome = self.client.hear::<Outcome>(LONG);
        let told = std::mem::take(&mut self.plans.lock().expect("a plan").told);
        let outcome = outcome.map_err(|silence| format!("{silence:?} after {told:?}"))?;
        // A panic of the module, unless the liar says that the agent had one: as a word, or as its
        // number.
        let is_said = told.iter().any(|lie| lie.contains("GeneralError") || lie.contains("is 0x16"));
        let may_fail = |name: &str| is_said || name == "C_Initialize";
        let is_right = outcome.wrong.is_empty()
            && outcome.slowest < LIMIT
            && outcome.codes.iter().all(|(name, code)| *code != CKR_GENERAL_ERROR || may_fail(name));
        let Outcome { codes, wrong, slowest } = &outcome;
        if is_right { Ok(outcome) } else { Err(format!("{wrong:?} {codes:x?} {slowest:?} after {told:?}")) }
    }

    /// Runs a case without lies. Returns its codes.
    fn honest(&mut self, case: usize) -> Result<Codes, String> {
        self.order(&Order::Run(case), Plan::default()).map(|outcome| outcome.codes)
    }

    /// Runs a case with lies, and then without.
    fn lie(&mut self, case: usize, plan: Plan, codes: &Codes) -> Result<(), String> {
        let outcome = self.order(&Order::Run(case), plan)?;
        // The session may be lost, or have another operation.
        for _ in 0..2 {
            if self.honest(case)? == *codes {
                return Ok(());
            }
            self.order(&Order::Renew, Plan::default())?;
        }
        let last = self.honest(case)?;
        if last == *codes { Ok(()) } else { Err(format!("{:x?}, and then {last:x?}", outcome.codes)) }
    }

    /// Runs a case. Returns its codes and the number of lies about each answer.
    fn record(&mut self, case: usize) -> (Codes, Vec<usize>) {
        self.order(&Order::Renew, Plan::default()).expect("an honest agent");
        self.honest(case).expect("an honest agent");
        let codes = self.honest(case).expect("an honest agent");
        let is_right = |code| {
            matches!(
                code,
                CKR_OK
                    | CKR_NO_EVENT
                    | CKR_OPERATION_NOT_INITIALIZED
                    | CKR_ATTRIBUTE_SENSITIVE
                    | CKR_ATTRIBUTE_TYPE_INVALID
            )
        };
        assert!(codes.iter().all(|(_, code)| is_right(*code)), "{codes:x?}");
        let plan = self.plans.lock().expect("a plan");
        (codes, plan.answers.iter().map(|answer| liar::count(answer)).collect())
    }
}

/// Tells one of a number of lies about each answer of each case.
fn lies(part: u64) {
    let mut random = Random::new("JETON_LIES");
    let mut stage = Stage::new();
    let (mut told, mut wrong) = (0, Vec::new());
    for case in 0..CASES.len() {
        let (codes, counts) = stage.record(case);
        for (position, count) in counts.iter().enumerate() {
            for number in 0..*count {
                if random.below(part) == 0 {
                    let lie = Some((position, number));
                    told += 1;
                    if let Err(what) = stage.lie(case, Plan { lie, ..Plan::default() }, &codes) {
                        wrong.push(format!("case {case}, answer {position}, lie {number}: {what}"));
                        stage = Stage::new();
                    }
                }
            }
        }
    }
    println!("{told} lies about {} cases", CASES.len());
    assert!(wrong.is_empty(), "{} lies:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_lie_of_an_agent_harms_its_application() {
    lies(PART);
}

#[test]
#[ignore = "in .ci/full"]
fn none_of_all_lies_of_an_agent_harms_its_application() {
    lies(1);
}

#[test]
fn an_agent_that_always_lies_harms_no_application() {
    let mut random = Random::new("JETON_LIES");
    let mut stage = Stage::new();
    let codes: Vec<_> = (0..CASES.len()).map(|case| stage.record(case).0).collect();
    for _ in 0..STORMS {
        let case = random.below(CASES.len() as u64) as usize;
        let storm = Some(Random::seeded(random.below(u64::MAX)));
        stage.lie(case, Plan { storm, ..Plan::default() }, &codes[case]).expect("a client that goes on");
    }
}

#[test]
fn an_agent_that_takes_its_time_is_left_in_time() {
    let lies = liar::slow();
    thread::scope(|scope| {
        for lie in &lies {
            scope.spawn(|| {
                let mut stage = Stage::new();
                // An answer without a session, one in a session, and the first one.
                for case in [2, 15, 0] {
                    let codes = stage.record(case).0;
                    let plan = Plan { next: Some(lie.clone()), ..Plan::default() };
                    stage.lie(case, plan, &codes).expect("a client that goes on");
                }
            });
        }
    });
}
