//! The module that the runs call: that of this process, or the client module of an agent, which is
//! another process with the same token.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;
use std::time::Duration;

use cryptoki_sys::*;
use libloading::Library;
use rustix::process::{Pid, Signal, kill_process};

/// A module. Dropping the value ends its agent.
pub(crate) enum Service {
    /// The module of this process. The first handles have this number more than usual.
    Linked(usize),
    Agent {
        client: Library,
        program: PathBuf,
        running: Option<Child>,
    },
}

impl Service {
    /// The agent that this program starts, with the client module at a path.
    pub(crate) fn agent(client: &Path, program: &Path) -> Self {
        // SAFETY: the client module of this tree.
        let client = unsafe { Library::new(client) }.expect("the client module");
        Self::Agent { client, program: program.to_owned(), running: None }
    }

    pub(crate) fn shift(&self) -> usize {
        if let Self::Linked(shift) = self { *shift } else { 0 }
    }

    pub(crate) fn functions(&self) -> &'static CK_FUNCTION_LIST_3_2 {
        type Get = unsafe extern "C" fn(*mut u8, *mut CK_VERSION, *mut *mut CK_INTERFACE, CK_FLAGS) -> CK_RV;
        let get: Get = match self {
            Self::Linked(_) => jeton_pkcs11::C_GetInterface,
            // SAFETY: the type of the function in PKCS#11.
            Self::Agent { client, .. } => unsafe { *client.get(b"C_GetInterface").expect("the function") },
        };
        let mut version = CK_VERSION { major: 3, minor: 2 };
        let mut found = null_mut();
        // SAFETY: NULL names the standard interface. The version is readable, and `found` is
        // writable.
        let rv = unsafe { get(null_mut(), &raw mut version, &raw mut found, 0) };
        assert_eq!(rv, CKR_OK);
        // SAFETY: the interface is a constant, and its list has the type of its version. The
        // library is open as long as the process.
        unsafe { &*(*found).pFunctionList.cast() }
    }

    /// Starts the agent with the configuration of this process.
    pub(crate) fn start(&mut self, directory: &Path) {
        let Self::Agent { program, running, .. } = self else { return };
        let socket = directory.join("agent.socket");
        let mut command = Command::new(program);
        command.arg("--socket").arg(&socket).arg("--state").arg(directory).stdin(Stdio::null());
        *running = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the agent"));
        // SAFETY: no other thread of this process reads the environment.
        unsafe { std::env::set_var("JETON_AGENT", format!("unix:{}", socket.display())) };
        jeton_child::until(Duration::from_secs(30), "the agent answers", || {
            UnixStream::connect(&socket).is_ok()
        });
    }

    /// Ends the agent, which then writes no file.
    pub(crate) fn stop(&mut self) {
        if let Self::Agent { running, .. } = self
            && let Some(mut agent) = running.take()
        {
            // It waits until the processes of its clients have ended.
            kill_process(Pid::from_child(&agent), Signal::TERM).expect("a signal");
            agent.wait().expect("the end of the agent");
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}
