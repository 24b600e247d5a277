//! The messages between the tool and the child process of the module, one JSON text in each line.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::case::KeyKind;
use super::measure::{End, MeasuredCase, Plan};
use crate::pipeline::{ModuleDescription, Target};

/// The work of the child, and its module. A job comes through standard input, because a PIN must
/// not be on a command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The module. `InProcess` if all keys are in memory.
    pub target: Target,
    /// The work.
    pub work: Work,
}

/// The work of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Measure handshakes.
    Measure(Plan),
    /// Serve on a socket.
    Serve(Serve),
}

/// A server on a socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Serve {
    /// The address. Port 0 is any free port.
    pub address: SocketAddr,
    /// The types of the keys that the server makes, if `existing` is `None`.
    pub keys: Vec<KeyKind>,
    /// The label of an existing key of the token, and the file of its certificate chain.
    pub existing: Option<(String, PathBuf)>,
    /// The file that receives the certificates in PEM.
    pub certificates: Option<PathBuf>,
    /// The server ends after this number of connections.
    pub connections: Option<u64>,
}

/// An event of the child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Event {
    /// The module was loaded.
    Described(ModuleDescription),
    /// A case begins: its title, its index and the number of cases.
    Case(String, usize, usize),
    /// A line for the user.
    Line(String),
    /// A case is measured.
    Measured(Box<MeasuredCase>),
    /// The end of a measurement.
    End(End),
    /// The end of a server.
    Served,
    /// The work failed.
    Failed(String),
}
