//! Statements about roles. A role is an account as which nobody can log in; like any account it may
//! be granted to others, which have its privileges while it is active.

use freshet_base::{Result, bail, err};

use crate::authorize::{Actor, Object, authorize, authorize_over, require_rank, with_granted};
use crate::catalog::Catalog;
use crate::privilege::Privilege;
use crate::user::{Account, AuthData, GrantedRole, User};
use crate::user_admin::UserAdmin;

/// Maximum number of roles of an account.
const ROLES_MAX: usize = 256;

/// Which of its roles are the default roles of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DefaultRoles {
    None,
    /// All that are granted now.
    All,
    These(Vec<Account>),
}

impl UserAdmin {
    /// CREATE ROLE by `by`; returns whether it existed (IF NOT EXISTS).
    ///
    /// # Errors
    /// 1227 if `by` may not create it, 1396 if it exists or is invalid.
    pub fn create_role(
        &mut self,
        by: Actor<'_>,
        role: &Account,
        if_not_exists: bool,
    ) -> Result<bool> {
        let user = User { locked: true, ..User::new(role.clone(), AuthData::default()) };
        self.create(by, user, if_not_exists, "CREATE ROLE")
    }

    /// DROP ROLE by `by`; returns whether it existed (IF EXISTS). Nobody has it any more.
    ///
    /// # Errors
    /// 1227 if `by` may not drop it, 1396 if it does not exist or is `root`.
    pub fn drop_role(&mut self, by: Actor<'_>, role: &Account, if_exists: bool) -> Result<bool> {
        self.remove(by, role, if_exists, "DROP ROLE")
    }

    /// GRANT of a role by `by`, who has SUPER and all privileges on the server that the role gives,
    /// or has the role WITH ADMIN OPTION. With `admin` it may be granted on.
    ///
    /// # Errors
    /// 1227 if `by` may not grant it, 3523 if the role or account does not exist, 3527 if the role
    /// would be granted to itself, 1396 beyond the limit.
    pub fn grant_role(
        &mut self,
        by: Actor<'_>,
        role: &Account,
        account: &Account,
        admin: bool,
    ) -> Result<()> {
        self.change_known(account, |catalog, mut user| {
            require(catalog, role)?;
            check_may_grant(catalog, by, role)?;
            if with_granted(catalog, role).iter().any(|held| held.account == *account) {
                bail!(
                    RoleLoop,
                    "User account {} is directly or indirectly granted to the role {}. The GRANT \
                     would create a loop",
                    role.quoted(),
                    account.quoted()
                );
            }
            let before = user.roles.iter().find(|granted| granted.role == *role);
            let admin = admin || before.is_some_and(|granted| granted.admin);
            user.roles.retain(|granted| granted.role != *role);
            if user.roles.len() >= ROLES_MAX {
                bail!(CannotUser, "{account} has {ROLES_MAX} roles, which is the limit");
            }
            user.roles.push(GrantedRole { role: role.clone(), admin });
            user.roles.sort();
            Ok(user)
        })
    }

    /// REVOKE of a role by `by`, who might grant it. It gives its privileges no longer, also where
    /// it is active.
    ///
    /// # Errors
    /// 1227 if `by` may not revoke it, 3523 if the role or account does not exist.
    pub fn revoke_role(&mut self, by: Actor<'_>, role: &Account, account: &Account) -> Result<()> {
        self.change_known(account, |catalog, mut user| {
            require(catalog, role)?;
            check_may_grant(catalog, by, role)?;
            user.roles.retain(|granted| granted.role != *role);
            user.default_roles.retain(|default| default != role);
            Ok(user)
        })
    }

    /// SET DEFAULT ROLE by `by`, who may always set its own.
    ///
    /// # Errors
    /// 1227 if `by` may not change the account, 3523 if it does not exist, 3530 if a role is not
    /// granted to it.
    pub fn set_default_roles(
        &mut self,
        by: Actor<'_>,
        account: &Account,
        roles: &DefaultRoles,
    ) -> Result<()> {
        self.change_known(account, |catalog, mut user| {
            if by.account != account {
                authorize_over(catalog, by, account)?;
            }
            user.default_roles = match roles {
                DefaultRoles::None => Vec::new(),
                DefaultRoles::All => user.login_roles(true),
                DefaultRoles::These(roles) => {
                    roles.iter().try_for_each(|role| user.require_role(role))?;
                    roles.clone()
                }
            };
            user.default_roles.sort();
            user.default_roles.dedup();
            Ok(user)
        })
    }

    fn change_known(
        &mut self,
        account: &Account,
        edit: impl FnOnce(&Catalog, User) -> Result<User>,
    ) -> Result<()> {
        require(self.catalog(), account)?;
        self.change_user(account, "GRANT", edit)
    }
}

impl User {
    /// Refuses a role that was not granted to the account.
    ///
    /// # Errors
    /// 3530.
    pub fn require_role(&self, role: &Account) -> Result<()> {
        match self.holds(role) {
            true => Ok(()),
            false => {
                let account = self.account.quoted();
                Err(err!(RoleNotGranted, "{} is not granted to {account}", role.quoted()))
            }
        }
    }
}

impl User {
    /// The account with the grants of these roles, and of all granted to them, as its own.
    #[must_use]
    pub fn with_roles(&self, catalog: &Catalog, roles: &[Account]) -> Self {
        let all = roles.iter().flat_map(|role| with_granted(catalog, role));
        all.fold(self.clone(), |mut user, role| {
            user.groups.extend(role.groups.iter().cloned());
            user.groups.sort();
            user.groups.dedup();
            role.grants.iter().fold(user, |user, grant| {
                let privileges = user.granted(&grant.object).and(grant.privileges);
                user.with_grant(grant.object.clone(), privileges)
            })
        })
    }
}

fn require(catalog: &Catalog, account: &Account) -> Result<()> {
    match catalog.user(account) {
        Some(_) => Ok(()),
        None => Err(err!(UnknownAuthorizationId, "Unknown authorization ID {}", account.quoted())),
    }
}

fn check_may_grant(catalog: &Catalog, by: Actor<'_>, role: &Account) -> Result<()> {
    let held = catalog.user(by.account).map_or(&[][..], |user| &user.roles);
    if held.iter().any(|granted| granted.role == *role && granted.admin) {
        return Ok(());
    }
    if authorize(catalog, by, Privilege::Super, Object::Server).is_err() {
        bail!(
            PrivilegeMissing,
            "Access denied; you need (at least one of) the WITH ADMIN, SUPER privilege(s) for \
             this operation"
        );
    }
    require_rank(catalog, by, role)
}
