//! Objects and searches (PKCS#11 3.2, "Object management functions").

use std::sync::Arc;

use super::Module;
use super::audit::{Call, record_read};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, ObjectClass, ObjectHandle, SessionHandle};
use crate::object::template::Template;
use crate::object::{Object, make, policy};
use crate::session::find::Find;

impl Module {
    /// `C_CreateObject`
    pub fn create_object(&self, session: SessionHandle, template: &Template<'_>) -> Result<ObjectHandle> {
        self.record_call(session, Call::of("C_CreateObject", None, &[]), |token, rights| {
            let template = token.named_usages(template, ObjectClass::DATA, None);
            let attributes = make::create(&template, rights, token.provider())?;
            token.insert(rights, session, attributes)
        })
    }

    /// `C_CopyObject`
    pub fn copy_object(
        &self,
        session: SessionHandle,
        object: ObjectHandle,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        self.record_call(session, Call::of("C_CopyObject", None, &[object]), |token, rights| {
            // Another process may have made the key sensitive. A copy of the old object would undo
            // that.
            token.poll()?;
            let object = token.object(rights, object)?;
            policy::copyable(&object)?;
            let attributes = make::copy(&object, template, rights)?;
            token.check_change(&object, &attributes)?;
            token.insert(rights, session, attributes)
        })
    }

    /// `C_DestroyObject`
    pub fn destroy_object(&self, session: SessionHandle, object: ObjectHandle) -> Result<()> {
        self.record_call(session, Call::of("C_DestroyObject", None, &[object]), |token, rights| {
            token.remove(rights, object)
        })
    }

    /// `C_GetObjectSize`. Returns an estimate in bytes.
    pub fn object_size(&self, session: SessionHandle, object: ObjectHandle) -> Result<u64> {
        Ok(self.object(session, object)?.size() as u64)
    }

    /// Returns the object of a handle. [`Object::attribute`] reads its attributes.
    pub fn object(&self, session: SessionHandle, object: ObjectHandle) -> Result<Arc<Object>> {
        self.sessions.with(session, |session| session.token.visible(session.rights(), object))
    }

    /// `C_GetAttributeValue`. `read` reads attributes of the object. If there is an audit log, it
    /// lists those that it returns to the caller and that are secret ([`Object::shows_secret`]).
    pub fn read_attributes(
        &self,
        session: SessionHandle,
        handle: ObjectHandle,
        read: impl FnOnce(&Object, Option<&mut Vec<A>>) -> Result<()>,
    ) -> Result<()> {
        let (object, audited) = self.sessions.with(session, |session| {
            let object = session.token.visible(session.rights(), handle)?;
            let token = &session.token;
            Ok((object, token.settings.audit.is_some().then(|| Arc::clone(token))))
        })?;
        let mut secret = Vec::new();
        let outcome = read(&object, audited.is_some().then_some(&mut secret));
        if let Some(token) = audited
            && !secret.is_empty()
        {
            record_read(&token, session, &object, &secret, &outcome);
        }
        outcome
    }

    /// `C_SetAttributeValue`
    pub fn set_attributes(
        &self,
        session: SessionHandle,
        handle: ObjectHandle,
        template: &Template<'_>,
    ) -> Result<()> {
        self.record_call(session, Call::of("C_SetAttributeValue", None, &[handle]), |token, rights| {
            token.replace(rights, handle, |object| {
                policy::modifiable(object, rights)?;
                let attributes = make::change(object, template, rights)?;
                token.check_change(object, &attributes)?;
                Ok(attributes)
            })
        })
    }

    /// `C_FindObjectsInit`. The search includes the changes of other processes up to now.
    pub fn find_init(&self, session: SessionHandle, template: &Template<'_>) -> Result<()> {
        let (token, rights) = self.access(session)?;
        let wanted = make::search(template)?;
        token.poll()?;
        let found = wanted.map(|wanted| token.search(rights, &wanted)).unwrap_or_default();
        self.sessions.with(session, |session| {
            require(session.find.is_none(), Error::OperationActive)?;
            session.find = Some(Find::new(&token, found)?);
            Ok(())
        })
    }

    /// `C_FindObjects`. Fills `out` from the front. Returns the number of handles.
    pub fn find(&self, session: SessionHandle, out: &mut [ObjectHandle]) -> Result<usize> {
        self.sessions.with(session, |session| {
            session.find.as_mut().map(|find| find.next(out)).ok_or(Error::OperationNotInitialized)
        })
    }

    /// `C_FindObjectsFinal`
    pub fn find_final(&self, session: SessionHandle) -> Result<()> {
        self.sessions
            .with(session, |session| session.find.take().map(drop).ok_or(Error::OperationNotInitialized))
    }
}
