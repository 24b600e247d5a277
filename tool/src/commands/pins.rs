//! `pin`: change, unblock, reset.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jeton_tool::Error;
use jeton_tool::client::{Access, User};
use jeton_tool::token::check_pin;

use super::out;
use super::pin::{self, NewPin, SoPin, UserPin};
use super::target::Target;
use super::token_file::Reset;

/// The PINs of a token.
#[derive(Args)]
pub struct Pin {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Change a PIN that is known: the user's, or the SO's with --so.
    Change(Change),
    /// Set a new user PIN with the SO's PIN, also if the user's PIN is locked.
    Unblock(Unblock),
    /// Set a new SO PIN with the user's PIN, or unlock both PINs. For tokens of Jeton.
    ///
    /// If the user's PIN is locked, the SO sets a new one with `unblock`. If the SO's PIN is locked
    /// or lost, this command sets a new one with the user's PIN. If both are locked but known, for
    /// example after logins that were killed, `--failures` allows new attempts. It needs no PIN,
    /// only the right to write to the token's file.
    Reset(Reset),
}

impl Pin {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! { self.what, What: Change Unblock Reset; }
    }
}

#[derive(Args)]
struct Change {
    #[command(flatten)]
    target: Target,
    /// Change the SO's PIN.
    #[arg(long)]
    so: bool,
    #[command(flatten)]
    pin: UserPin,
    #[command(flatten)]
    so_pin: SoPin,
    #[command(flatten)]
    new_pin: NewPin,
}

impl Change {
    fn run(self) -> Result<(), Error> {
        let opened = self.target.open(None)?;
        let (user, whose, old) = if self.so {
            (User::So, "SO", self.so_pin.given()?)
        } else {
            (User::User, "user", self.pin.given()?)
        };
        let old = pin::ask(old, whose, || opened.asked())?;
        let session = opened.module.open_session(opened.slot, Access::ReadWrite)?;
        opened.login(&session, user, &old)?;
        let new = pin::ask_new(self.new_pin.given()?, whose, &opened.info.label)?;
        check_pin(&opened.info, whose, &new)?;
        session.set_pin(&old, &new)?;
        out::result(&opened.row(), format_args!("The {whose} PIN is changed."))
    }
}

#[derive(Args)]
struct Unblock {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    so_pin: SoPin,
    #[command(flatten)]
    new_pin: NewPin,
}

impl Unblock {
    fn run(self) -> Result<(), Error> {
        let opened = self.target.open(None)?;
        let so_pin = pin::ask(self.so_pin.given()?, "SO", || opened.asked())?;
        let session = opened.module.open_session(opened.slot, Access::ReadWrite)?;
        opened.login(&session, User::So, &so_pin)?;
        let new = pin::ask_new(self.new_pin.given()?, "user", &opened.info.label)?;
        check_pin(&opened.info, "user", &new)?;
        session.init_pin(&new)?;
        drop(session);
        out::result(&opened.row(), format_args!("The user PIN is set: {}.", opened.place()))
    }
}
