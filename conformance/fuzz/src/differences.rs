//! The same calls on the module in process and through an agent. Two processes have the module,
//! with other handles, random numbers and addresses: what is the same there must be the same
//! through the agent.

use std::ops::Range;
use std::path::{Path, PathBuf};

use cryptoki_sys::CK_RV;
use jeton_child::{heard, say};
use serde::{Deserialize, Serialize};

use crate::calls;
use crate::run::Run;
use crate::service::Service;
use crate::targets::{PARAMETERS, TEMPLATES};
use crate::token::Token;
use crate::trace::{Change, Step, Trace};

/// The module that a process calls, with a copy of the token's file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Role {
    /// Makes the token.
    Make,
    /// The module of the process. Its handles begin with this number more than usual.
    Linked {
        file: PathBuf,
        shift: usize,
    },
    Agent {
        file: PathBuf,
        client: PathBuf,
        program: PathBuf,
    },
}

/// An input of [`crate::targets`]: the number of functions that it may call, and its bytes.
pub type Input = (usize, Vec<u8>);

/// The inputs of these targets are compared.
pub const TARGETS: [&str; 3] = ["abi", "params", "template"];

/// A call that is another one through the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub function: String,
    /// The codes in process and through the agent.
    pub codes: [CK_RV; 2],
    /// What was written, if the codes are equal.
    pub written: String,
}

/// Carries out the runs that the parent of this process sends.
pub fn serve(role: Role) {
    let mut token = match role {
        Role::Make => return say(&Token::new(true).kept()),
        Role::Linked { file, shift } => Token::copy_of(&file, Service::Linked(shift)),
        Role::Agent { file, client, program } => Token::copy_of(&file, Service::agent(&client, &program)),
    };
    let functions = ["", PARAMETERS, TEMPLATES].map(calls::named);
    while let Some(input) = heard::<Input>() {
        let (target, bytes) = input.expect("an input");
        let mut trace = Trace::default();
        Run::of(&bytes, &functions[target], &mut token, Some(&mut trace));
        say(&trace.steps);
    }
}

/// Returns the first difference between the runs of two processes with the module and one with the
/// agent.
pub fn compare(module: &[Step], other: &[Step], agent: &[Step]) -> Option<Difference> {
    for ((module, other), agent) in module.iter().zip(other).zip(agent) {
        // The outcome depends on random numbers, and so does the rest.
        if module.rv != other.rv {
            return None;
        }
        let (function, codes) = (module.name.clone(), [module.rv, agent.rv]);
        if module.rv != agent.rv {
            return Some(Difference { function, codes, written: String::new() });
        }
        let block = |step: &Step, block| {
            let found = step.changes.iter().find(|change| change.block == block).cloned();
            found.map(|change| match function.as_str() {
                "C_GetTokenInfo" => without_tries(change),
                "C_GetSlotInfo" => without_padding(change),
                _ => change,
            })
        };
        let blocks = module.changes.iter().chain(&agent.changes).map(|change| change.block);
        for number in blocks {
            let [module, other, agent] = [module, other, agent].map(|step| block(step, number));
            // A handle is another number through the agent.
            let is_any = module != other || function == "C_OpenSession";
            // One or two random bytes can be those that were there.
            let are_few = [&module, &agent].into_iter().flatten().all(|change| change.bytes.len() <= 4);
            let agrees = module == agent || is_any && (module.is_some() == agent.is_some() || are_few);
            if !agrees {
                let written = format!("{module:?} in process, {agent:?} through the agent");
                return Some(Difference { function, codes, written });
            }
        }
    }
    None
}

/// Returns a change of a `CK_TOKEN_INFO` without the flags for wrong PINs: the agent counts those
/// of the client too.
fn without_tries(mut change: Change) -> Change {
    /// The digits of the third byte of the flags.
    const TRIES: Range<usize> = 2 * 98..2 * 99;
    if change.place.0 == 0 && change.bytes.len() > TRIES.end && change.bytes.is_ascii() {
        change.bytes.replace_range(TRIES, "..");
    }
    change
}

/// Returns a change of a `CK_SLOT_INFO` without the four bytes that C adds at its end.
fn without_padding(mut change: Change) -> Change {
    if change.place.0 == 0 && change.bytes.len() > 2 * 108 {
        change.bytes.truncate(2 * 108);
        change.place.1 = 108;
    }
    change
}

/// Returns the directory of a target's corpus.
pub fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}
