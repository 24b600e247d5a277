//! The messages between the tool and the child process of a module, one JSON text per line. The
//! tool sends one [`Job`], then a [`Work`] for each run. The child answers with [`Event`]s.

use std::fmt::{self, Display};
use std::path::PathBuf;

use jeton_client::{Module, SlotId};
use jeton_peers::{TokenAccess, prepare_token};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::role::Role;

/// The first message to a child. It goes through standard input, because a PIN must not be on a
/// command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub name: String,
    pub target: Target,
    /// The number of threads of the parallel stages, or the largest number of those of TLS.
    pub threads: usize,
    /// The number of RSA subscriber key pairs that are reused. 0 generates one for each
    /// certificate.
    pub rsa_key_pool: u64,
    pub database: PathBuf,
    /// Whether the module signs in asynchronous sessions.
    pub asynchronous: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Target {
    InProcess,
    OpenSsl,
    Module {
        library: PathBuf,
        /// The library parameters of `C_Initialize`.
        reserved: Option<String>,
        token: TokenAccess,
    },
}

impl Target {
    /// Loads the module and opens its token. Returns `None` if the engine is not a module.
    #[expect(clippy::type_complexity, reason = "the parts of an open token")]
    pub fn open(&self) -> Result<Option<((Module, SlotId, String), ModuleDescription)>> {
        let Self::Module { library, reserved, token } = self else { return Ok(None) };
        let module = Module::load(library)?;
        module.initialize(reserved.as_deref())?;
        let info = module.info()?;
        let (slot, pin) = prepare_token(&module, token)?;
        let description = ModuleDescription {
            description: info.description,
            manufacturer: info.manufacturer,
            version: info.version.to_string(),
            cryptoki: info.cryptoki.to_string(),
            library: Some(library.clone()),
        };
        Ok(Some(((module, slot, pin), description)))
    }
}

/// A turn: one run through the stages of the pipeline, or of a case of TLS. Its text
/// names it for the progress bar. The child answers with progress, and at the end with `Ran`,
/// `NotAvailable` or `Failed`.
pub trait Work: Clone + Display + Serialize + DeserializeOwned {
    type Sample: Clone + Serialize + DeserializeOwned + Send + 'static;
    type Measured;

    const ROLE: Role;
    /// The name of the scenario in a result store.
    const SCENARIO: &'static str;

    /// Returns the algorithm of the CA's key, or the profile. The report lists the algorithms that
    /// a module lacks.
    fn algorithm(&self) -> String;

    fn in_round(&self, round: usize) -> Self;

    /// Summarises the runs of a module in the rounds. Returns `None` if there is no run. `baseline`
    /// has the runs of the baseline in the same rounds, and is `None` for the baseline itself.
    fn summarise(
        &self,
        rounds: &[Option<Self::Sample>],
        baseline: Option<&[Option<Self::Sample>]>,
    ) -> Option<Self::Measured>;

    /// Returns whether a plot can show the numbers. A result store may come from another person.
    fn can_be_drawn(_measured: &Self::Measured) -> bool {
        true
    }
}

/// Asks for one run through the stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The CA algorithm, or a profile with another algorithm of the subscribers.
    pub algorithm: String,
    pub size: u64,
    /// The number of the round. 0 is the warm-up, whose documents are not kept.
    pub round: usize,
}

impl Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, size, round } = self;
        write!(f, "{algorithm}, batch of {size}, round {round}")
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event<S> {
    /// The module was loaded. The child waits for turns.
    Described(ModuleDescription),
    Progress {
        stage: String,
    },
    Ran(S),
    /// The module lacks what the algorithm needs.
    NotAvailable {
        reason: String,
    },
    /// The start or a turn failed.
    Failed {
        message: String,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModuleDescription {
    /// `libraryDescription` of `C_GetInfo`.
    pub description: String,
    pub manufacturer: String,
    /// `libraryVersion`
    pub version: String,
    pub cryptoki: String,
    /// The file. `None` if the engine is not a module.
    pub library: Option<PathBuf>,
}
