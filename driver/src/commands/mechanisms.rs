//! `mechanisms`: what a module says it can do.

use std::process::ExitCode;

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use cryptoki_sys::CK_SLOT_ID;
use jeton_driver::Error;
use jeton_driver::client::{SlotId, names};

use super::open;

/// Show the mechanisms of a module.
#[derive(Args)]
pub struct Mechanisms {
    /// A module: jeton, softhsm2, nss, or the path of a shared object.
    #[arg(long, default_value = "jeton")]
    module: String,
    /// The slot; the first with a token if absent.
    #[arg(long)]
    slot: Option<CK_SLOT_ID>,
}

impl Mechanisms {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let module = open(&self.module)?;
        let slot = match self.slot {
            Some(slot) => SlotId(slot),
            None => *module
                .slots(true)?
                .first()
                .ok_or_else(|| Error::Usage("the module has no slot with a token".to_owned()))?,
        };
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_header(["mechanism", "smallest key", "largest key", "for"]);
        for kind in module.mechanisms(slot)? {
            let info = module.mechanism_info(slot, kind)?;
            let (least, most) = info.key_sizes;
            table.add_row([
                Cell::new(names::mechanism(kind)),
                Cell::new(least).set_alignment(CellAlignment::Right),
                Cell::new(most).set_alignment(CellAlignment::Right),
                Cell::new(names::mechanism_flags(info.flags)),
            ]);
        }
        println!("{table}");
        Ok(ExitCode::SUCCESS)
    }
}
