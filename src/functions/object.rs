//! Objects and searches (PKCS#11 3.2, "Object management functions").

use std::sync::Arc;

use jeton_words::token::{Attributes, Room};

use super::Module;
use super::audit::{Call, record_read};
use crate::error::{Error, Result, require};
use crate::id::{ObjectClass, ObjectHandle, SessionHandle};
use crate::object::template::Template;
use crate::object::{Object, access, make};
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
            access::copyable(&object)?;
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

    /// `C_GetAttributeValue`. Processes every attribute even after a failure (PKCS#11 3.2: the call
    /// "MUST nonetheless have processed every attribute"). If there is an audit log, it lists those
    /// that are secret ([`Object::shows_secret`]), unless the caller asks only for the length.
    pub fn attributes(
        &self,
        session: SessionHandle,
        handle: ObjectHandle,
        asked: &mut impl Attributes,
    ) -> Result<()> {
        let (object, audited) = self.sessions.with(session, |session| {
            let object = session.token.visible(session.rights(), handle)?;
            let token = &session.token;
            Ok((object, token.settings.audit.is_some().then(|| Arc::clone(token))))
        })?;
        let mut secret = Vec::new();
        for index in 0..asked.count() {
            let (id, room) = asked.asked(index);
            if audited.is_some() && room != Room::Length && object.shows_secret(id) {
                secret.push(id);
            }
            asked.tell(index, object.attribute(id));
        }
        if let Some(token) = audited
            && !secret.is_empty()
        {
            record_read(&token, session, &object, &secret, &asked.outcome());
        }
        Ok(())
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
                access::modifiable(object, rights)?;
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
