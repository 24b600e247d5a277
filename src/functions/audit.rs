//! The contents of the audit log. It has a record of each call that logs in or out, sets a PIN,
//! creates, changes or destroys objects, reads a secret value, or uses a private or secret key. A
//! call is recorded when it ends. Of an operation, only the Init function is recorded, because an
//! application can abandon the operation without a further call. A message-based operation also has
//! a record of each message, because it processes any number of them. Closing a session is not
//! recorded, although it destroys the session's objects and may end the login.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Derived, Module};
use crate::audit::{Audit, ObjectName, Record};
use crate::config::fips;
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, MechanismType, ObjectHandle, SessionHandle, mechanism_flag as does};
use crate::mechanism::{Mechanism, MechanismWord, Params, row_of};
use crate::object::access::Rights;
use crate::object::{self, Object};
use crate::session::Owner;
use crate::token::ClientToken;

/// The text that a record has for success.
const SUCCESS: &str = "Ok";

/// The result of a function. It may contain the handles of new objects.
pub(super) trait Makes {
    /// Whether the function makes objects.
    const OBJECTS: bool = true;

    fn handles(&self) -> Vec<ObjectHandle> {
        Vec::new()
    }

    /// Returns the text of the result for the record.
    fn result(&self) -> String {
        SUCCESS.to_owned()
    }
}

impl Makes for () {
    const OBJECTS: bool = false;
}

impl Makes for usize {
    const OBJECTS: bool = false;
}

impl Makes for ObjectHandle {
    fn handles(&self) -> Vec<ObjectHandle> {
        vec![*self]
    }
}

impl Makes for (ObjectHandle, ObjectHandle) {
    fn handles(&self) -> Vec<ObjectHandle> {
        vec![self.0, self.1]
    }
}

impl Makes for (usize, Option<ObjectHandle>) {
    fn handles(&self) -> Vec<ObjectHandle> {
        self.1.into_iter().collect()
    }
}

impl Makes for Derived {
    fn handles(&self) -> Vec<ObjectHandle> {
        match self {
            Self::Key(key) | Self::Master(key, _) => vec![*key],
            Self::Connection(connection) => {
                connection.macs.into_iter().chain(connection.keys).flatten().collect()
            }
            Self::Output(_) => Vec::new(),
        }
    }
}

/// A call as the audit log records it, without its result.
pub(super) struct Call<'a> {
    pub function: &'static str,
    pub mechanism: Option<&'a Mechanism>,
    /// The objects that the arguments name.
    pub objects: &'a [ObjectHandle],
    pub user: Option<&'static str>,
    /// The secret attributes that the call returned.
    pub attributes: &'a [A],
}

impl<'a> Call<'a> {
    pub(super) const fn of(
        function: &'static str,
        mechanism: Option<&'a Mechanism>,
        objects: &'a [ObjectHandle],
    ) -> Self {
        Self { function, mechanism, objects, user: None, attributes: &[] }
    }
}

impl Module {
    /// Does the work of a function, with the token and the rights of the session, and records it if
    /// there is an audit log. Fails with `SessionHandleInvalid` if another thread closed the
    /// session before the work created session objects.
    pub(super) fn record_call<T: Makes>(
        &self,
        session: SessionHandle,
        call: Call<'_>,
        work: impl FnOnce(Arc<ClientToken>, Rights) -> Result<T>,
    ) -> Result<T> {
        let (token, rights) = self.access(session)?;
        let work = || {
            let outcome = work(Arc::clone(&token), rights);
            if cfg!(feature = "fips") && call.mechanism.is_some() {
                self.judge(session, &call, &outcome.as_ref().map(Makes::handles).unwrap_or_default());
            }
            // The session may have been closed before its new objects or its pending function were
            // listed. They would never be removed.
            if T::OBJECTS && outcome.is_ok() && !self.sessions.is_open(session) {
                self.jobs.close_session(session);
                require(!token.forget_session(session), Error::SessionHandleInvalid)?;
            }
            outcome
        };
        if token.settings.audit.is_none() {
            return work();
        }
        // The unique IDs are read before the work, because it may destroy the objects. The rights
        // are read again after the work, because a login gives more rights.
        let parameter = call.mechanism.map(|mechanism| mechanism.params.keys()).unwrap_or_default();
        let mut objects = names(&token, rights, &[call.objects, &parameter].concat());
        let outcome = work();
        let rights = token.rights(rights.access);
        objects.extend(names(&token, rights, &outcome.as_ref().map(Makes::handles).unwrap_or_default()));
        if let Some(audit) = &token.settings.audit {
            let result = outcome.as_ref().map_or_else(describe_error, Makes::result);
            note(audit, &token, session, &call, objects, result);
        }
        outcome
    }

    /// Records whether a call without an operation was an approved service: the mechanism, its
    /// parameter, the keys that it used and those that it made.
    fn judge(&self, session: SessionHandle, call: &Call<'_>, made: &[ObjectHandle]) {
        let Some(mechanism) = call.mechanism else { return };
        let function = match call.function {
            "C_GenerateKey" => does::GENERATE,
            "C_GenerateKeyPair" => does::GENERATE_KEY_PAIR,
            "C_DeriveKey" => does::DERIVE,
            "C_EncapsulateKey" => does::ENCAPSULATE,
            "C_DecapsulateKey" => does::DECAPSULATE,
            _ => 0,
        };
        let permits = |object: Arc<Object>| object::fips::permit(mechanism, object.attributes()).is_ok();
        let approved = self.access(session).is_ok_and(|(token, rights)| {
            fips::approved(row_of(mechanism.info)) & function != 0
                && !made.is_empty()
                && call
                    .objects
                    .iter()
                    .chain(made)
                    .all(|key| token.key_object(rights, *key).is_ok_and(permits))
        });
        // Another thread may have closed the session.
        let _ = self.sessions.with(session, |session| {
            session.approved = approved;
            Ok(())
        });
    }
}

impl Module {
    /// Records a call that the agent refused by its rules.
    pub fn record_refusal(
        &self,
        session: Option<SessionHandle>,
        function: &'static str,
        mechanism: Option<MechanismType>,
        result: String,
    ) {
        let Ok(state) = self.state() else { return };
        let Some(audit) = &state.settings.audit else { return };
        let token = session.and_then(|session| {
            self.sessions.with(session, |session| Ok(session.token.serial().to_owned())).ok()
        });
        audit.note(Record {
            token,
            session: session.map(|session| session.0),
            client: self.application.identity.as_ref().map(|identity| identity.name.clone()),
            function,
            mechanism: mechanism.map(|mechanism| mechanism.to_string()),
            result,
            ..Record::default()
        });
    }
}

/// Records that an operation starts with a private or secret key. Public keys and handles that the
/// session cannot see are not recorded.
#[cold]
pub(super) fn record_start(
    audit: &Audit,
    owner: Owner<'_>,
    function: &'static str,
    info: &'static MechanismWord,
    key: ObjectHandle,
    outcome: &Result<()>,
) {
    let (token, rights) = (owner.token, owner.token.rights(owner.access));
    let Ok(object) = token.visible(rights, key) else { return };
    if !object.object_type().is_secret() && !object.object_type().is_private() {
        return;
    }
    let objects = names(token, rights, &[key]);
    let mechanism = Mechanism { info, params: Params::None };
    let call = Call::of(function, Some(&mechanism), &[]);
    note(audit, token, owner.handle, &call, objects, describe(outcome));
}

#[cold]
pub(super) fn record_read(
    token: &ClientToken,
    session: SessionHandle,
    object: &Object,
    attributes: &[A],
    outcome: &Result<()>,
) {
    if let Some(audit) = &token.settings.audit {
        // A template may name an attribute many times.
        let mut known = HashSet::new();
        let attributes: Vec<_> = attributes.iter().copied().filter(|id| known.insert(*id)).collect();
        let call = Call { attributes: &attributes, ..Call::of("C_GetAttributeValue", None, &[]) };
        note(audit, token, session, &call, vec![name(object)], describe(outcome));
    }
}

fn note(
    audit: &Audit,
    token: &ClientToken,
    session: SessionHandle,
    call: &Call<'_>,
    objects: Vec<Named>,
    result: String,
) {
    let (objects, names) = objects.into_iter().unzip();
    audit.note(Record {
        token: Some(token.serial().to_owned()),
        session: Some(session.0),
        client: token.identity().map(|identity| identity.name.clone()),
        function: call.function,
        user: call.user,
        mechanism: call.mechanism.map(|mechanism| mechanism.info.id.to_string()),
        objects,
        names,
        attributes: call.attributes.iter().map(A::to_string).collect(),
        result,
        ..Record::default()
    });
}

/// Returns the text of a result in a record.
pub(super) fn describe(outcome: &Result<()>) -> String {
    outcome.as_ref().map_or_else(describe_error, Makes::result)
}

fn describe_error(error: &Error) -> String {
    format!("{error:?}")
}

/// `CKA_UNIQUE_ID` of an object, and its other names.
type Named = (String, ObjectName);

fn names(token: &ClientToken, rights: Rights, handles: &[ObjectHandle]) -> Vec<Named> {
    let objects = handles.iter().filter_map(|handle| token.visible(rights, *handle).ok());
    objects.map(|object| name(&object)).collect()
}

fn name(object: &Object) -> Named {
    let bytes = |id| object.attributes().bytes(id).unwrap_or_default();
    let text = |id| String::from_utf8_lossy(bytes(id)).into_owned();
    let label = text(A::LABEL).chars().take(64).collect();
    let id = bytes(A::ID).iter().take(32).map(|byte| format!("{byte:02x}")).collect();
    (text(A::UNIQUE_ID), ObjectName { label, id })
}
