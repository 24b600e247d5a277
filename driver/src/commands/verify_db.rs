//! `verify-db`: verifies the documents in a database that `jeton pipeline` has written.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;
use jeton_driver::Error;
use jeton_driver::client::Module;
use jeton_driver::pipeline::{Engine, InProcess, Pkcs11, Verdict, open_openssl, verify_database};
use jeton_driver::selection::Selection;
use jeton_driver::text::shown;
use jeton_peers::{Known, Sandbox, TokenAccess};

use super::backend::Backend;
use super::out;
use super::pin;

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
    /// Set by the tool when it runs itself: the library parameters and the access to the token, as
    /// JSON.
    #[arg(long, hide = true)]
    sandbox: Option<String>,
}

impl VerifyDb {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        match (Selection::parse(&self.module)?, &self.sandbox) {
            (Selection::InProcess, _) => self.verify(&mut InProcess::default()),
            (Selection::OpenSsl, _) => self.verify(open_openssl()?.0.as_mut()),
            (Selection::RustCrypto, None) => self.run_in_sandbox(Known::Jeton, Some(Backend::Rustcrypto)),
            (Selection::RustCrypto, Some(sandbox)) => self.verify_in(Known::Jeton, sandbox),
            (Selection::Path(path), _) => {
                let pin = pin::ask_for_module(&path, self.pin.clone())?.to_string();
                let token = TokenAccess::Existing { label: self.token_label.clone(), pin };
                self.verify_through(path, None, &token)
            }
            (Selection::Known(known), None) => self.run_in_sandbox(known, self.backend),
            (Selection::Known(known), Some(sandbox)) => self.verify_in(known, sandbox),
        }
    }

    /// Verifies in the process that `run_in_sandbox` started, whose environment configures the
    /// module. `sandbox` contains the library parameters and the access to the token, as JSON.
    fn verify_in(&self, known: Known, sandbox: &str) -> Result<ExitCode, Error> {
        let token =
            serde_json::from_str(sandbox).map_err(|error| Error::Usage(format!("--sandbox: {error}")))?;
        let (reserved, token): (Option<String>, TokenAccess) = token;
        self.verify_through(library(known)?, reserved.as_deref(), &token)
    }

    /// Runs the tool again, in an environment that configures the module with a fresh token. A
    /// process cannot change its own environment safely.
    fn run_in_sandbox(&self, known: Known, backend: Option<Backend>) -> Result<ExitCode, Error> {
        // Fails here, with one clear message, if the module is not installed.
        library(known)?;
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        let sandbox = Sandbox::fresh(known, directory.path(), backend.map(Backend::name))?;
        let text = serde_json::to_string(&(&sandbox.reserved, &sandbox.token))
            .map_err(|error| Error::Usage(error.to_string()))?;
        let program = std::env::current_exe().map_err(Error::io("the tool's own executable"))?;
        let mut command = Command::new(&program);
        command.args(["verify-db", "--module", &self.module, "--sandbox", &text, "--db"]).arg(&self.db);
        let status = command.envs(sandbox.environment).status().map_err(Error::io(program))?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn verify_through(
        &self,
        library: PathBuf,
        reserved: Option<&str>,
        token: &TokenAccess,
    ) -> Result<ExitCode, Error> {
        let module = Module::load(library)?;
        module.initialize(reserved)?;
        let (slot, pin) = jeton_peers::prepare_token(&module, token)?;
        let threads = rayon::current_num_threads();
        self.verify(&mut Pkcs11::open(&module, slot, &pin, threads)?)
    }

    fn verify(&self, engine: &mut dyn Engine) -> Result<ExitCode, Error> {
        let verdicts = verify_database(&self.db, engine)?;
        verdicts.iter().try_for_each(show)?;
        let sound = verdicts.iter().all(|verdict| verdict.failures.is_empty());
        Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn library(known: Known) -> Result<PathBuf, Error> {
    Ok(jeton_peers::library_of(known.name())?)
}

fn show(verdict: &Verdict) -> Result<(), Error> {
    let batch = &verdict.batch;
    let name = shown(&format!("{}, {}, batch of {}", batch.module, batch.algorithm, batch.size));
    out::line(format_args!("{name}: {} verify", verdict.good))?;
    verdict.failures.iter().try_for_each(|failure| out::line(format_args!("FAILED: {name}: {failure}")))
}
