//! Makes the same calls with the module in process and through an agent: the inputs of the corpora
//! and random ones. The codes, lengths and bytes must be equal, but for the rows of
//! `differences.tsv`.
//!
//! `JETON_DIFFERENCES_SECONDS` makes it go on with random inputs for that time, of the seed
//! `JETON_DIFFERENCES_SEED`. `JETON_DIFFERENCES_INPUT` names a file with one input, of which it
//! prints all calls.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::time::{Duration, Instant};
use std::{env, fs};

use jeton_child::{Child, Random, Silence, of_role, role};
use jeton_fuzz::differences::{Difference, Input, Role, TARGETS, compare, corpus, serve};
use jeton_fuzz::trace::Step;
use jeton_names::ReturnCode;

/// The random inputs of a run without a number of seconds.
const FEW: usize = 300;
/// A run has a few dozen calls, some of which make keys.
const LIMIT: Duration = Duration::from_secs(60);

fn main() {
    match role::<Role>() {
        Some(role) => serve(role.expect("a role")),
        None => run(),
    }
}

fn run() {
    let program = env::current_exe().expect("this program");
    let here = program.parent().expect("a directory");
    let built = here.parent().expect("a directory");
    let (client, agent) = (here.join("libjeton_client.so"), built.join("jeton-agent"));
    for file in [&client, &agent] {
        assert!(file.exists(), "{} is not built", file.display());
    }
    let file: PathBuf =
        Child::start(&mut of_role(&Role::Make)).expect("a child").hear(LIMIT).expect("a token");
    let linked = |shift| Role::Linked { file: file.clone(), shift };
    let roles = [linked(0), linked(9), Role::Agent { file: file.clone(), client, program: agent }];
    let mut compared =
        Compared { roles, children: Vec::new(), known: known(), seen: HashMap::new(), runs: 0, calls: 0 };

    if let Ok(path) = env::var("JETON_DIFFERENCES_INPUT") {
        let bytes = fs::read(path).expect("an input");
        (0..TARGETS.len()).for_each(|target| compared.print(&(target, bytes.clone())));
        return compared.report();
    }
    for (target, name) in TARGETS.iter().enumerate() {
        let mut files: Vec<_> = fs::read_dir(corpus(name))
            .expect("a corpus")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        for file in files {
            compared.run(&(target, fs::read(file).expect("an input")));
        }
    }
    let seconds = env::var("JETON_DIFFERENCES_SECONDS").ok().and_then(|text| text.parse().ok());
    let mut random = Random::new("JETON_DIFFERENCES_SEED");
    let start = Instant::now();
    for count in 0.. {
        let is_over = match seconds {
            Some(seconds) => start.elapsed() > Duration::from_secs(seconds),
            None => count == FEW,
        };
        if is_over {
            break;
        }
        let (target, len) = (random.below(3) as usize, 16 + random.below(1000));
        compared.run(&(target, (0..len).map(|_| random.below(256) as u8).collect()));
    }
    fs::remove_dir_all(file.parent().and_then(Path::parent).expect("a directory")).expect("removed");
    compared.report();
}

struct Compared {
    roles: [Role; 3],
    children: Vec<Child>,
    known: HashSet<(String, String, String)>,
    /// How often each difference was seen that is not known.
    seen: HashMap<(String, String), usize>,
    runs: usize,
    calls: usize,
}

impl Compared {
    fn steps(&mut self, input: &Input) -> Result<Vec<Vec<Step>>, Silence> {
        if self.children.is_empty() {
            let start = |role| Child::start(&mut of_role(role)).expect("a child");
            self.children = self.roles.iter().map(start).collect();
        }
        self.children.iter_mut().for_each(|child| child.tell(input));
        self.children.iter_mut().map(|child| child.hear(LIMIT)).collect()
    }

    fn print(&mut self, input: &Input) {
        let steps = self.steps(input).expect("three traces");
        println!("{}: {:?}", TARGETS[input.0], compare(&steps[0], &steps[1], &steps[2]));
        for (module, agent) in steps[0].iter().zip(&steps[2]) {
            println!(
                "{} {:#x} {:#x}\n  {:?}\n  {:?}",
                module.name, module.rv, agent.rv, module.changes, agent.changes
            );
        }
    }

    fn run(&mut self, input: &Input) {
        let steps = self.steps(input);
        self.runs += 1;
        match steps {
            Ok(steps) => {
                self.calls += steps[2].len();
                if let Some(difference) = compare(&steps[0], &steps[1], &steps[2]) {
                    self.note(&difference, input);
                }
            }
            Err(silence) => {
                self.children.clear();
                self.found(("a process".to_owned(), format!("{silence:?}")), input);
            }
        }
    }

    fn note(&mut self, difference: &Difference, input: &Input) {
        let function = difference.function.clone();
        let [module, agent] = difference.codes.map(|rv| ReturnCode(rv).name().unwrap_or("?").to_owned());
        if difference.written.is_empty() {
            let what = format!("{module} in process, {agent} through the agent");
            if !self.known.contains(&(function.clone(), module, agent)) {
                self.found((function, what), input);
            }
        } else {
            self.found((function, format!("{module}: {}", difference.written)), input);
        }
    }

    fn found(&mut self, what: (String, String), input: &Input) {
        let count = self.seen.entry(what.clone()).or_default();
        *count += 1;
        if *count == 1 {
            let path = env::temp_dir().join(format!("difference-{}", self.runs));
            fs::write(&path, &input.1).expect("a file");
            println!("{}: {} ({} of {})", what.0, what.1, TARGETS[input.0], path.display());
        }
    }

    fn report(&self) {
        println!("{} runs with {} calls", self.runs, self.calls);
        println!("test result: {} differences", self.seen.len());
        exit(i32::from(!self.seen.is_empty()));
    }
}

/// The rows of the data file: a function, its codes in process and through the agent, and the
/// reason.
fn known() -> HashSet<(String, String, String)> {
    let rows = include_str!("../differences.tsv").lines().skip(1);
    rows.map(|row| {
        let [function, module, agent, _] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four columns: {row}");
        };
        (function.to_owned(), module.to_owned(), agent.to_owned())
    })
    .collect()
}
