//! `init-token`, `show-slots`, `delete-token`: the options of `softhsm2-util`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use cryptoki_sys::CK_SLOT_ID;
use jeton_driver::Error;
use jeton_driver::client::SlotId;
use jeton_driver::token::{self, Choice, Slot};

use super::{open, pin};

/// Which module.
#[derive(Args)]
struct ModuleOption {
    /// A module: jeton, softhsm2, nss, or the path of a shared object.
    #[arg(long, default_value = "jeton")]
    module: String,
}

/// Initialise a token and set its PINs.
#[derive(Args)]
pub struct InitToken {
    #[command(flatten)]
    module: ModuleOption,
    /// The first slot whose token is not initialised.
    #[arg(long, group = "which")]
    free: bool,
    /// The slot with this number.
    #[arg(long, group = "which")]
    slot: Option<CK_SLOT_ID>,
    /// The token with this serial.
    #[arg(long, group = "which")]
    serial: Option<String>,
    /// The token with this label.
    #[arg(long, group = "which")]
    token: Option<String>,
    /// The label of the token, 32 bytes at most.
    #[arg(long)]
    label: String,
    /// The security officer's PIN. The tool asks for it if it is absent.
    #[arg(long)]
    so_pin: Option<String>,
    /// The user's PIN. The tool asks for it if it is absent.
    #[arg(long)]
    pin: Option<String>,
    /// A file with the security officer's PIN in its first line.
    #[arg(long, conflicts_with = "so_pin")]
    so_pin_file: Option<PathBuf>,
    /// A file with the user's PIN in its first line.
    #[arg(long, conflicts_with = "pin")]
    pin_file: Option<PathBuf>,
}

impl InitToken {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        if self.label.len() > 32 {
            return Err(Error::Usage("a label has 32 bytes at most".to_owned()));
        }
        let choice = choice(self.free, self.slot, self.serial, self.token).unwrap_or(Choice::Free);
        let module = open(&self.module.module)?;
        let so_pin = pin::ask_new(self.so_pin.or(pin::read(self.so_pin_file.as_deref())?), "SO")?;
        let pin = pin::ask_new(self.pin.or(pin::read(self.pin_file.as_deref())?), "user")?;
        let slot = token::initialise(&module, &choice, &self.label, &so_pin, &pin)?;
        let serial = module.token_info(slot)?.serial;
        println!("The token {:?} with serial {serial} is in slot {}.", self.label, slot.0);
        Ok(ExitCode::SUCCESS)
    }
}

/// Show the slots of a module and their tokens.
#[derive(Args)]
pub struct ShowSlots {
    #[command(flatten)]
    module: ModuleOption,
}

impl ShowSlots {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let module = open(&self.module.module)?;
        token::slots(&module)?.iter().for_each(show);
        Ok(ExitCode::SUCCESS)
    }
}

/// Delete a token of Jeton with all it holds.
#[derive(Args)]
pub struct DeleteToken {
    #[command(flatten)]
    module: ModuleOption,
    /// The token with this serial.
    #[arg(long, group = "which", required_unless_present = "token")]
    serial: Option<String>,
    /// The token with this label.
    #[arg(long, group = "which")]
    token: Option<String>,
}

impl DeleteToken {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        if self.module.module != "jeton" {
            return Err(Error::Usage(
                "PKCS#11 has no call that deletes a token; only those of Jeton can be deleted here, by their files"
                    .to_owned(),
            ));
        }
        let Some(choice) = choice(false, None, self.serial, self.token) else {
            return Err(Error::Usage("--serial or --token says which token".to_owned()));
        };
        let module = open(&self.module.module)?;
        let token = module.token_info(token::choose(&module, &choice)?)?;
        // The module lets go of the files before they go.
        module.finalize()?;
        for file in token::delete_files(&token::token_directory()?, &token.serial)? {
            println!("removed {}", file.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn choice(
    free: bool,
    slot: Option<CK_SLOT_ID>,
    serial: Option<String>,
    label: Option<String>,
) -> Option<Choice> {
    let free = free.then_some(Choice::Free);
    let slot = slot.map(|id| Choice::Slot(SlotId(id)));
    free.or(slot).or(serial.map(Choice::Serial)).or(label.map(Choice::Label))
}

fn show(slot: &Slot) {
    println!("Slot {}", slot.id.0);
    println!("    Description:   {}", slot.slot.description);
    println!("    Manufacturer:  {}", slot.slot.manufacturer);
    let Some(token) = &slot.token else {
        println!("    No token");
        return;
    };
    let user_pin = token.flags & cryptoki_sys::CKF_USER_PIN_INITIALIZED != 0;
    println!("    Token");
    println!("        Label:         {}", token.label);
    println!("        Serial:        {}", token.serial);
    println!("        Model:         {}", token.model);
    println!("        Manufacturer:  {}", token.manufacturer);
    println!("        Initialised:   {}", yes_or_no(token.is_initialised()));
    println!("        User PIN set:  {}", yes_or_no(user_pin));
}

fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}
