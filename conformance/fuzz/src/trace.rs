//! What the calls of a run returned and wrote, for a comparison with another module.

use std::hash::{DefaultHasher, Hash, Hasher};

use cryptoki_sys::{CK_RV, CK_TOKEN_INFO};
use serde::{Deserialize, Serialize};

use crate::memory::Memory;

/// The length up to which a trace has the bytes of a change. It has the hash of a longer one.
const SHOWN: usize = 256;

/// The bytes of a `CK_TOKEN_INFO` that are compared.
const TOKEN_INFO: usize = std::mem::offset_of!(CK_TOKEN_INFO, utcTime);

/// A call of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub name: String,
    pub rv: CK_RV,
    pub changes: Vec<Change>,
}

/// A block of memory that a call changed, by its number in the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub block: usize,
    /// The first byte that changed, and the number of bytes up to the last one.
    pub place: (usize, usize),
    /// These bytes in hexadecimal digits, or their hash.
    pub bytes: String,
}

/// The calls of a run.
#[derive(Default)]
pub(crate) struct Trace {
    before: Vec<Vec<u8>>,
    pub(crate) steps: Vec<Step>,
}

impl Trace {
    pub(crate) fn before(&mut self, memory: &Memory) {
        self.before = memory.since(0).map(<[u8]>::to_vec).collect();
    }

    pub(crate) fn after(&mut self, name: &str, rv: CK_RV, memory: &Memory) {
        // The time is another one in the next second, and so are the bytes that align the struct.
        let len = if name == "C_GetTokenInfo" { TOKEN_INFO } else { usize::MAX };
        let blocks = self.before.iter().zip(memory.since(0)).enumerate();
        let changes = blocks.filter_map(|(block, (before, after))| {
            let differs = || before.iter().zip(after).take(len).map(|(before, after)| before != after);
            let first = differs().position(|differs| differs)?;
            let last = differs().rposition(|differs| differs)?;
            let bytes = &after[first..=last];
            Some(Change { block, place: (first, bytes.len()), bytes: shown(bytes) })
        });
        let changes = changes.collect();
        self.steps.push(Step { name: name.to_owned(), rv, changes });
    }
}

fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= SHOWN {
        return bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("hash {:016x}", hasher.finish())
}
