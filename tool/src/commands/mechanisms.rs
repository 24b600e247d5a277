//! `mechanisms`: shows the mechanisms that a module lists.

use clap::Args;
use cryptoki_sys::CK_SLOT_ID;
use jeton_tool::Error;
use jeton_tool::client::{SlotId, names};
use serde::Serialize;

use super::out;
use super::target::ModuleOption;

/// Show the mechanisms of a module.
#[derive(Args)]
pub struct Mechanisms {
    #[command(flatten)]
    module: ModuleOption,
    /// The slot. The default is the first one with a token.
    #[arg(long)]
    slot: Option<CK_SLOT_ID>,
}

/// A mechanism in `--json`.
#[derive(Serialize)]
struct Row {
    mechanism: String,
    min_key_size: u64,
    max_key_size: u64,
    functions: Vec<String>,
}

impl Mechanisms {
    pub fn run(self) -> Result<(), Error> {
        let module = self.module.open(None)?;
        let slot = match self.slot {
            Some(slot) => SlotId(slot),
            None => *module
                .slots(true)?
                .first()
                .ok_or_else(|| Error::Failed("the module has no slot with a token".to_owned()))?,
        };
        let mut rows = Vec::new();
        for kind in module.mechanisms(slot)? {
            let info = module.mechanism_info(slot, kind)?;
            let functions = names::mechanism_flags(info.flags);
            rows.push(Row {
                mechanism: names::mechanism(kind),
                min_key_size: info.key_sizes.0,
                max_key_size: info.key_sizes.1,
                functions: functions.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            });
        }
        if out::is_json() {
            return out::json(&rows);
        }
        let cells = |row: Row| {
            let [least, most] = [row.min_key_size, row.max_key_size].map(|size| size.to_string());
            [row.mechanism, least, most, row.functions.join(", ")]
        };
        let header = ["Mechanism", "Smallest key", "Largest key", "Functions"];
        out::columns(header, rows.into_iter().map(cells))
    }
}
