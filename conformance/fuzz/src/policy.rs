//! The results that a run must not achieve: a key with less protection than before, and a key that
//! becomes trusted without the SO.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_FALSE, CK_OBJECT_HANDLE, CK_TRUE, CKA_EXTRACTABLE, CKA_PRIVATE, CKA_SENSITIVE,
    CKA_TRUSTED, CKA_WRAP_WITH_TRUSTED, CKR_OK,
};

use crate::token::Token;

/// The protection of an object, as far as its attributes show it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Protection {
    private: Option<bool>,
    sensitive: Option<bool>,
    extractable: Option<bool>,
    trusted: Option<bool>,
    wrap_with_trusted: Option<bool>,
}

impl Protection {
    /// Whether the protection is lower than before. `CKA_TRUSTED` is checked separately.
    fn less_than(self, before: Self) -> bool {
        let lost = |before: Option<bool>, now: Option<bool>| before == Some(true) && now == Some(false);
        lost(before.private, self.private)
            || lost(before.sensitive, self.sensitive)
            || lost(before.wrap_with_trusted, self.wrap_with_trusted)
            || before.extractable == Some(false) && self.extractable == Some(true)
    }

    /// Returns the protection of an object, as the user of the token sees it.
    pub(crate) fn of(token: &Token, object: CK_OBJECT_HANDLE) -> Self {
        let flag = |type_| {
            let mut value = CK_FALSE;
            let mut asked = CK_ATTRIBUTE { type_, pValue: (&raw mut value).cast(), ulValueLen: 1 };
            let read = token.list.C_GetAttributeValue.expect("an entry");
            // SAFETY: an attribute with a buffer of its length.
            let rv = unsafe { read(token.session, object, &raw mut asked, 1) };
            (rv == CKR_OK).then_some(value == CK_TRUE)
        };
        Self {
            private: flag(CKA_PRIVATE),
            sensitive: flag(CKA_SENSITIVE),
            extractable: flag(CKA_EXTRACTABLE),
            trusted: flag(CKA_TRUSTED),
            wrap_with_trusted: flag(CKA_WRAP_WITH_TRUSTED),
        }
    }
}

/// Panics if a successful call broke a rule. `asked` are the objects of its arguments, with
/// their protection before the call. `made` are its new objects. `officer` is whether the SO was
/// logged in at any time of the run.
pub(crate) fn judge(
    token: &Token,
    officer: bool,
    name: &str,
    asked: &[(CK_OBJECT_HANDLE, Protection)],
    made: &[CK_OBJECT_HANDLE],
) {
    for (object, before) in asked {
        let now = Protection::of(token, *object);
        assert!(!now.less_than(*before), "{name}: {object} was {before:?}, is {now:?}");
        judge_trust(officer, name, *object, *before, now);
    }
    for object in made {
        let now = Protection::of(token, *object);
        judge_trust(officer, name, *object, Protection::default(), now);
        if let ("C_CopyObject", [(original, before)]) = (name, asked) {
            assert!(!now.less_than(*before), "{name}: {original} is {before:?}, its copy {now:?}");
        }
    }
    if let ("C_WrapKey" | "C_WrapKeyAuthenticated", [.., (_, by), (key, protection)]) = (name, asked) {
        assert_ne!(protection.extractable, Some(false), "{name}: {key} left the token");
        let bound = protection.wrap_with_trusted == Some(true) && by.trusted != Some(true);
        assert!(!bound, "{name}: {key} left the token under a key that is not trusted");
    }
}

fn judge_trust(officer: bool, name: &str, object: CK_OBJECT_HANDLE, before: Protection, now: Protection) {
    let gained = before.trusted != Some(true) && now.trusted == Some(true);
    assert!(!gained || officer, "{name}: {object} is trusted without the SO");
}
