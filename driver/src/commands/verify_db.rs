//! `verify-db`: verifies the documents in a database that `jeton-driver pipeline` has written.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jeton_client::text::shown;
use jeton_driver::Error;
use jeton_driver::pipeline::{Engine, InProcess, Pkcs11, Verdict, open_openssl, verify_database};
use jeton_driver::role::{Role, Verify};
use jeton_driver::selection::Selection;
use jeton_peers::{Known, Sandbox, TokenAccess, open_token};

use super::backend::Backend;
use super::{pin, printing};

/// Verify the contents of a database of the pipeline with the keys of the stored CA certificates.
#[derive(Args)]
pub struct VerifyDb {
    /// The database.
    #[arg(long)]
    db: PathBuf,
    /// The module that verifies: jeton, jeton-rc, softhsm2, nss, kryoptic, craton, openssl,
    /// in-process, or the path of a shared object.
    #[arg(long, default_value = "jeton")]
    module: String,
    /// The backend of jeton.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// The label of the token, for a module that is given by its path.
    #[arg(long)]
    token_label: Option<String>,
    /// The user PIN of the token. The tool asks for it if it is absent.
    #[arg(long, env = "JETON_PIN", hide_env_values = true)]
    pin: Option<String>,
}

impl VerifyDb {
    pub fn run(self) -> Result<ExitCode, Error> {
        match Selection::parse(&self.module)? {
            Selection::InProcess => verify(&self.db, &mut InProcess::default()),
            Selection::OpenSsl => verify(&self.db, open_openssl()?.0.as_mut()),
            Selection::RustCrypto => self.run_in_sandbox(Known::Jeton, Some(Backend::Rustcrypto)),
            Selection::Path(library) => {
                let pin = pin::ask_for_module(&library, self.pin.clone())?.to_string();
                let token = TokenAccess::Existing { label: self.token_label.clone(), pin };
                verify_through(&Verify { db: self.db, library, reserved: None, token })
            }
            Selection::Known(known) => {
                let backend = self.backend;
                self.run_in_sandbox(known, backend)
            }
        }
    }

    /// Runs the tool again, in an environment that configures the module with a fresh token. A
    /// process cannot change its own environment safely.
    fn run_in_sandbox(self, known: Known, backend: Option<Backend>) -> Result<ExitCode, Error> {
        // Fails here, with one clear message, if the module is not installed.
        let library = jeton_peers::library_of(known.name())?;
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        let sandbox = Sandbox::fresh(known, directory.path(), backend.map(Backend::name))?;
        sandbox.start_agent(directory.path())?;
        let Sandbox { environment, reserved, token } = sandbox;
        let role = Role::VerifyDb(Verify { db: self.db, library, reserved, token });
        let status =
            jeton_child::of_role(&role).envs(environment).status().map_err(Error::io("the driver"))?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Verifies a database through a module, in a process whose environment configures it.
pub fn verify_through(work: &Verify) -> Result<ExitCode, Error> {
    let (module, slot, pin) = open_token(&work.library, work.reserved.as_deref(), &work.token)?;
    let threads = rayon::current_num_threads();
    verify(&work.db, &mut Pkcs11::open(&module, slot, &pin, threads)?)
}

fn verify(db: &Path, engine: &mut dyn Engine) -> Result<ExitCode, Error> {
    let verdicts = verify_database(db, engine)?;
    verdicts.iter().try_for_each(show)?;
    let sound = verdicts.iter().all(|verdict| verdict.failures.is_empty());
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(verdict: &Verdict) -> Result<(), Error> {
    let batch = &verdict.batch;
    let name = shown(&format!("{}, {}, batch of {}", batch.module, batch.algorithm, batch.size));
    let mut out = std::io::stdout().lock();
    writeln!(out, "{name}: {} verify", verdict.good).map_err(printing)?;
    for failure in &verdict.failures {
        writeln!(out, "FAILED: {name}: {failure}").map_err(printing)?;
    }
    Ok(())
}
