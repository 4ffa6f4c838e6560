//! The second password of an account, which opens it while its clients learn the new one.

use freshet_base::Result;

use crate::authorize::{Actor, authorize_over};
use crate::user::Account;
use crate::user_admin::UserAdmin;

impl UserAdmin {
    /// ALTER USER .. DISCARD OLD PASSWORD by `by`, which may do so for itself.
    ///
    /// # Errors
    /// 1227 if `by` may not change it, 1396 if it does not exist.
    pub fn discard_second<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
    ) -> Result<()> {
        let by = by.into();
        self.change_user(account, "ALTER USER", |catalog, mut user| {
            if by.account != account {
                authorize_over(catalog, by, account)?;
            }
            user.second = None;
            Ok(user)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::{AuthData, SecondPassword, TlsRequirement, User};

    fn native(byte: u8) -> AuthData {
        AuthData { native: Some([byte; 20]), ..AuthData::default() }
    }

    #[test]
    fn a_password_stays_behind_the_next_where_it_is_to() {
        use SecondPassword::{Discarded, Kept, Replaced};
        let of = |auth, second| User { second, ..User::new(Account::anywhere("u"), auth) };
        let behind = |user: &User, new, how| {
            user.second_behind(&new, how).map_err(|error| error.code().errno())
        };
        let tls = TlsRequirement::Ssl;
        let one = of(AuthData { tls, ..native(1) }, None);
        assert_eq!(behind(&one, native(2), Kept), Ok(None));
        assert_eq!(behind(&one, native(2), Replaced), Ok(Some(native(1))));
        let two = of(native(2), Some(native(1)));
        assert_eq!(behind(&two, native(3), Kept), Ok(Some(native(1))));
        assert_eq!(behind(&two, native(3), Replaced), Ok(Some(native(2))));
        assert_eq!(behind(&two, native(3), Discarded), Ok(None));
        assert_eq!(behind(&two, AuthData::default(), Kept), Ok(None));
        assert_eq!(behind(&two, AuthData::default(), Replaced), Err(3895));
        let empty = of(AuthData::default(), None);
        assert_eq!(behind(&empty, native(1), Replaced), Err(3878));
    }
}
