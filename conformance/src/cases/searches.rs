//! "Object management functions": searches.

use cryptoki_sys::{CKA_LABEL, CKA_TOKEN, CKR_OK, CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED};

use super::objects::data;
use super::{Case, case};
use crate::fixture::{bytes, ensure, flag, with};

pub const CASES: &[Case] = &[
    case("C_FindObjectsInit", "while a search is active", &[CKR_OPERATION_ACTIVE], |fixture| {
        let session = fixture.fresh()?;
        session.find_init(&[])?;
        session.find_init(&[])
    }),
    case("C_FindObjects", "without C_FindObjectsInit", &[CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        fixture.fresh()?.find_next(1).map(drop)
    }),
    case("C_FindObjectsFinal", "without C_FindObjectsInit", &[CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        fixture.fresh()?.find_final()
    }),
    case("C_FindObjects", "finds only objects that match all attributes", &[CKR_OK], |fixture| {
        let session = fixture.fresh()?;
        let wanted = |label: &[u8]| with(data(false)[..2].to_vec(), bytes(CKA_LABEL, label));
        let object = session.create_object(&wanted(b"to be found"))?;
        let (found, none) =
            (session.find(&wanted(b"to be found"))?, session.find(&wanted(b"not to be found"))?);
        ensure("C_FindObjects", found == [object] && none.is_empty())
    }),
    case("C_FindObjects", "hides private objects without a login", &[CKR_OK], |fixture| {
        let mut template = data(true);
        template[1] = flag(CKA_TOKEN, true);
        template[3] = bytes(CKA_LABEL, *b"to be hidden");
        fixture.create_object(&template)?;
        let wanted = &template[3..4];
        let hidden = fixture.logged_out(|session| session.find(wanted));
        let found = fixture.find(wanted)?;
        found.iter().try_for_each(|object| fixture.destroy_object(*object))?;
        ensure("C_FindObjects", hidden?.is_empty() && found.len() == 1)
    }),
    case("C_FindObjects", "returns at most the requested number of handles", &[CKR_OK], |fixture| {
        let session = fixture.fresh()?;
        session.create_object(&data(false))?;
        session.create_object(&data(false))?;
        session.find_init(&data(false)[..2])?;
        ensure("C_FindObjects", session.find_next(1)?.len() == 1 && session.find_next(1)?.len() == 1)
    }),
];
