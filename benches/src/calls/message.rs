//! `C_EncryptMessage` with AES-256-GCM.

use cryptoki_sys::{
    CK_C_EncryptMessage, CK_GCM_MESSAGE_PARAMS, CK_OBJECT_HANDLE, CK_ULONG, CKG_NO_GENERATE, CKM_AES_GCM,
    CKR_FUNCTION_NOT_SUPPORTED,
};
use jeton_client::{Mechanism, ObjectHandle, Session};

use super::{Answer, Entry, MechanismMemory, check, entry, refused};

/// `C_EncryptMessage`, after one `C_MessageEncryptInit`. Each message has a new nonce of 12 bytes,
/// which the caller sets, and a tag of 16 bytes.
pub struct Messages<'a> {
    session: &'a Session,
    encrypt: Entry<CK_C_EncryptMessage>,
    nonce: Box<[u64; 2]>,
    tag: Box<[u8; 16]>,
    input: Vec<u8>,
    out: Vec<u8>,
}

impl<'a> Messages<'a> {
    pub fn begin(session: &'a Session, key: ObjectHandle, input: &[u8]) -> Answer<Self> {
        let functions = session.module().functions_3_0();
        let functions =
            functions.ok_or_else(|| refused("C_MessageEncryptInit", CKR_FUNCTION_NOT_SUPPORTED))?;
        let init = entry("C_MessageEncryptInit", functions.C_MessageEncryptInit)?;
        let mut mechanism = MechanismMemory::new(&Mechanism::new(CKM_AES_GCM));
        let key: CK_OBJECT_HANDLE = key.0;
        // SAFETY: the mechanism is valid during the call.
        check("C_MessageEncryptInit", unsafe { init(session.handle(), &mut mechanism.raw, key) })?;
        Ok(Self {
            session,
            encrypt: entry("C_EncryptMessage", functions.C_EncryptMessage)?,
            nonce: Box::new([0; 2]),
            tag: Box::new([0; 16]),
            input: input.to_vec(),
            out: vec![0; input.len()],
        })
    }

    #[inline]
    pub fn call(&mut self) -> Answer {
        self.nonce[0] += 1;
        let mut params = CK_GCM_MESSAGE_PARAMS {
            pIv: self.nonce.as_mut_ptr().cast(),
            ulIvLen: 12,
            ulIvFixedBits: 0,
            ivGenerator: CKG_NO_GENERATE,
            pTag: self.tag.as_mut_ptr(),
            ulTagBits: 128,
        };
        let mut len = self.out.len() as CK_ULONG;
        // SAFETY: the parameter points to the nonce and to a buffer for the tag; the length is that
        // of the input, which is only read; `out` is writable for its length.
        let code = unsafe {
            (self.encrypt)(
                self.session.handle(),
                std::ptr::from_mut(&mut params).cast(),
                size_of::<CK_GCM_MESSAGE_PARAMS>() as CK_ULONG,
                std::ptr::null_mut(),
                0,
                self.input.as_ptr().cast_mut(),
                self.input.len() as CK_ULONG,
                self.out.as_mut_ptr(),
                &mut len,
            )
        };
        check("C_EncryptMessage", code)
    }
}

impl Drop for Messages<'_> {
    /// Ends the encryption, so that the session can begin another one.
    fn drop(&mut self) {
        let functions = self.session.module().functions_3_0();
        if let Some(end) = functions.and_then(|functions| functions.C_MessageEncryptFinal) {
            // SAFETY: the call takes no pointers.
            unsafe { end(self.session.handle()) };
        }
    }
}
