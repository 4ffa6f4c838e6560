//! Statements that change users and grants.

use freshet_base::{Error, Result, bail, err};

use crate::authorize::{Actor, Object, authorize, authorize_over, require_rank};
use crate::catalog::Catalog;
use crate::meta::{Change, Meta};
use crate::policies;
use crate::privilege::{Privilege, Privileges};
use crate::user::{
    Account, AuthData, GrantObject, Remembered, SecondPassword, TlsRequirement, User,
};
use crate::user_options::UserOption;
use crate::workload::ALL_GROUPS;

/// Maximum number of accounts on a server.
const USERS_MAX: usize = 10_000;
/// Maximum number of objects on which an account has grants.
const GRANTS_MAX: usize = 10_000;
/// Maximum length of a user name, in characters.
const USER_CHARS_MAX: usize = 32;
/// Maximum length of a host pattern, in characters.
const HOST_CHARS_MAX: usize = 255;

/// The users in metadata, for a statement that changes them. Nothing else can be reached from here.
pub struct UserAdmin {
    /// As it is behind the changes that were made so far.
    catalog: Catalog,
    edits: Vec<Edit>,
}

/// A change of one account.
enum Edit {
    Put(Box<User>),
    Remove(Account),
}

impl Edit {
    fn apply(&self, catalog: &mut Catalog) {
        match self {
            Self::Put(user) => catalog.put_user(User::clone(user)),
            Self::Remove(account) => catalog.remove_user(account),
        }
    }
}

impl Meta {
    /// Makes all changes of a statement about users in one commit, or none of them.
    ///
    /// # Errors
    /// Those of `plan`, and when the disk is full.
    pub fn change_users<T>(&self, plan: impl FnOnce(&mut UserAdmin) -> Result<T>) -> Result<T> {
        self.change(|catalog| {
            let mut users = UserAdmin { catalog: catalog.clone(), edits: Vec::new() };
            let answer = plan(&mut users)?;
            let edits = users.edits;
            let changes = !edits.is_empty();
            let apply =
                move |catalog: &mut Catalog| edits.iter().for_each(|edit| edit.apply(catalog));
            Ok((changes.then(|| Change::of_catalog(apply)), answer))
        })
    }
}

impl UserAdmin {
    /// CREATE USER by `by`; returns whether the user existed (IF NOT EXISTS).
    ///
    /// # Errors
    /// 1227 if `by` may not create it, 1396 if it exists or is invalid.
    pub fn create_user<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        auth: AuthData,
        if_not_exists: bool,
    ) -> Result<bool> {
        let user = User::new(account.clone(), auth);
        self.create_with_options(by, user, if_not_exists)
    }

    /// CREATE USER by `by`, of an account with options; returns whether it existed.
    ///
    /// # Errors
    /// As [`Self::create_user`].
    pub fn create_with_options<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        user: User,
        if_not_exists: bool,
    ) -> Result<bool> {
        self.create(by.into(), user, if_not_exists, "CREATE USER")
    }

    /// Creates a user or a role.
    pub(crate) fn create(
        &mut self,
        by: Actor<'_>,
        user: User,
        if_not_exists: bool,
        operation: &str,
    ) -> Result<bool> {
        let (catalog, account) = (&self.catalog, &user.account);
        authorize(catalog, by, Privilege::CreateUser, Object::Server)?;
        if catalog.user(account).is_some() {
            match if_not_exists {
                true => return Ok(true),
                false => bail!(CannotUser, "Operation {operation} failed for {account}"),
            }
        }
        check_account(account, operation)?;
        // An account with the same name and a more specific host takes precedence over the existing
        // one.
        for namesake in catalog.users().filter(|user| user.account.name == account.name) {
            require_rank(catalog, by, &namesake.account)?;
        }
        if catalog.users().count() >= USERS_MAX {
            bail!(CannotUser, "there are {USERS_MAX} users, which is the limit");
        }
        self.edit(Edit::Put(Box::new(user)));
        Ok(false)
    }

    /// ALTER USER .. IDENTIFIED BY and SET PASSWORD by `by`, which may always change
    /// its own password. What is required of the connection stays.
    ///
    /// # Errors
    /// 1227 if `by` may not change it, 1396 if it does not exist.
    pub fn set_auth<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        auth: AuthData,
    ) -> Result<()> {
        self.set_password(by, account, auth, Remembered::default(), SecondPassword::Kept)
    }

    /// As [`Self::set_auth`]; the account remembers these of its passwords.
    ///
    /// # Errors
    /// As [`Self::set_auth`]; 3878 and 3895 where the password before is to stay the second one,
    /// and it or the new one is empty.
    pub fn set_password<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        auth: AuthData,
        remembered: Remembered,
        second: SecondPassword,
    ) -> Result<()> {
        let by = by.into();
        self.change_user(account, "ALTER USER", |catalog, mut user| {
            if by.account != account {
                authorize_over(catalog, by, account)?;
            }
            user.second = user.second_behind(&auth, second)?;
            let past = user.remembered(remembered).cloned();
            user.past = past.map(|auth| AuthData { tls: TlsRequirement::None, ..auth }).collect();
            user.auth = AuthData { tls: user.auth.tls, ..auth };
            user.options.is_expired = false;
            Ok(user)
        })
    }

    /// ALTER USER by `by` with options.
    ///
    /// # Errors
    /// 1227 if `by` may not change it; 1396 if it does not exist, and to lock `root`.
    pub fn set_options<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        options: &[UserOption],
    ) -> Result<()> {
        let by = by.into();
        self.change_user(account, "ALTER USER", |catalog, mut user| {
            authorize_over(catalog, by, account)?;
            if *account == Account::root() && options.contains(&UserOption::Locked(true)) {
                bail!(
                    CannotUser,
                    "Operation ALTER USER failed for {account}: somebody must be able to unlock it"
                );
            }
            user.options = options.iter().fold(user.options, |all, option| all.with(*option));
            Ok(user)
        })
    }

    /// CREATE USER and ALTER USER by `by` with COMMENT or ATTRIBUTE: `change` makes of the account
    /// the JSON object that it has then.
    ///
    /// # Errors
    /// 1227 if `by` may not change it, 1396 if it does not exist; those of `change`.
    pub fn set_attributes<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        change: impl FnOnce(&User) -> Result<Option<String>>,
    ) -> Result<()> {
        let by = by.into();
        self.change_user(account, "ALTER USER", |catalog, mut user| {
            authorize_over(catalog, by, account)?;
            user.attributes = change(&user)?;
            Ok(user)
        })
    }

    /// SET PROPERTY by `by`, names and values.
    ///
    /// # Errors
    /// 1227 if `by` may not change it, 1396 if it does not exist, 1105 for a workload group that
    /// does not exist, 1210 and 1235 for other properties.
    pub fn set_properties<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        properties: &[(String, String)],
    ) -> Result<()> {
        let by = by.into();
        self.change_user(account, "SET PROPERTY", |catalog, user| {
            authorize_over(catalog, by, account)?;
            let set =
                |user: User, (name, value): &(String, String)| user.with_property(name, value);
            let user = properties.iter().try_fold(user, set)?;
            user.properties
                .group
                .as_deref()
                .map_or(Ok(()), |group| catalog.require_group(group).map(drop))?;
            Ok(user)
        })
    }

    /// GRANT or REVOKE USAGE_PRIV ON WORKLOAD GROUP by `by`; `%` are all groups.
    ///
    /// # Errors
    /// 1227 without SUPER, 1410 or 1141 if the account does not exist, 1105 if the group does not.
    pub fn grant_group<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        group: &str,
        give: bool,
    ) -> Result<()> {
        let by = by.into();
        let operation = if give { "GRANT" } else { "REVOKE" };
        self.change_user(account, operation, |catalog, mut user| {
            authorize(catalog, by, Privilege::Super, Object::Server)?;
            if give && group != ALL_GROUPS {
                catalog.require_group(group)?;
            }
            user.groups.retain(|granted| granted != group);
            if give {
                user.groups.push(group.to_owned());
                user.groups.sort();
            }
            Ok(user)
        })
    }

    /// ALTER USER .. REQUIRE by `by`.
    ///
    /// # Errors
    /// 1227 if `by` may not change it, 1396 if it does not exist.
    pub fn require_tls<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        tls: TlsRequirement,
    ) -> Result<()> {
        let by = by.into();
        self.change_user(account, "ALTER USER", |catalog, mut user| {
            authorize_over(catalog, by, account)?;
            user.auth.tls = tls;
            Ok(user)
        })
    }

    /// DROP USER by `by`; returns whether the user existed (IF EXISTS).
    ///
    /// # Errors
    /// 1227 if `by` may not drop it, 1396 if it does not exist or is `root`.
    pub fn drop_user<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        if_exists: bool,
    ) -> Result<bool> {
        self.remove(by.into(), account, if_exists, "DROP USER")
    }

    /// Removes a user or a role.
    pub(crate) fn remove(
        &mut self,
        by: Actor<'_>,
        account: &Account,
        if_exists: bool,
        operation: &str,
    ) -> Result<bool> {
        authorize_over(&self.catalog, by, account)?;
        check_unbound(&self.catalog, account, operation)?;
        if self.catalog.user(account).is_none() {
            match if_exists {
                true => return Ok(false),
                false => bail!(CannotUser, "Operation {operation} failed for {account}"),
            }
        }
        self.edit(Edit::Remove(account.clone()));
        Ok(true)
    }

    /// RENAME USER by `by`: the account, or role, keeps its password, options, privileges and
    /// roles, and whoever has it as a role keeps it.
    ///
    /// # Errors
    /// 1227 if `by` may not change it; 1396 if it does not exist, is `root`, defines a view or is
    /// restricted by a row policy, and if the new name exists or is invalid.
    pub fn rename_user<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        from: &Account,
        to: &Account,
    ) -> Result<()> {
        const OPERATION: &str = "RENAME USER";
        let by = by.into();
        authorize_over(&self.catalog, by, from)?;
        check_unbound(&self.catalog, from, OPERATION)?;
        let Some(user) = self.catalog.user(from) else {
            bail!(CannotUser, "Operation {OPERATION} failed for {from}");
        };
        let user = User { account: to.clone(), ..User::clone(user) };
        if let Some(view) = self.catalog.views().find(|view| view.definer == *from) {
            bail!(
                CannotUser,
                "Operation {OPERATION} failed for {from}: it defines view '{}'; define that anew \
                 first",
                view.name
            );
        }
        self.create(by, user, false, OPERATION)?;
        let holds = |user: &User| user.holds(from) || user.default_roles.contains(from);
        let holders = self.catalog.users().map(AsRef::as_ref).filter(|user| holds(user));
        let holders = holders.map(|user| user.with_role_renamed(from, to)).collect::<Vec<_>>();
        holders.into_iter().for_each(|user| self.edit(Edit::Put(Box::new(user))));
        self.edit(Edit::Remove(from.clone()));
        Ok(())
    }

    /// GRANT, by an account that may.
    ///
    /// # Errors
    /// 1410 if the user does not exist.
    pub fn grant(
        &mut self,
        account: &Account,
        privileges: Privileges,
        object: &GrantObject,
    ) -> Result<()> {
        self.change_user(account, "GRANT", |_, user| {
            let now = user.granted(object);
            if now.is_empty() && user.grants.len() >= GRANTS_MAX {
                bail!(
                    CannotUser,
                    "{account} has grants on {GRANTS_MAX} objects, which is the limit; grant on \
                     the database or on *.* instead"
                );
            }
            Ok(user.with_grant(object.clone(), now.and(privileges)))
        })
    }

    /// REVOKE by `by`; privileges that were not granted are ignored.
    ///
    /// # Errors
    /// 1227 if `by` lacks privileges of the account, 1141 if the user does not exist, 1396 for
    /// privileges of `root` on the server.
    pub fn revoke<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
        privileges: Privileges,
        object: &GrantObject,
    ) -> Result<()> {
        let by = by.into();
        self.change_user(account, "REVOKE", |catalog, user| {
            require_rank(catalog, by, account)?;
            if *account == Account::root() && *object == GrantObject::Server {
                bail!(
                    CannotUser,
                    "Operation REVOKE failed for {account}: somebody must be able \
                     to grant it again"
                );
            }
            let left = user.granted(object).without(privileges);
            let mut user = user.with_grant(object.clone(), left);
            // As in MySQL, ALL of a table is that of its columns as well.
            if let GrantObject::Table(database, table) = object
                && privileges.contains(Privileges::all())
            {
                user.grants.retain(|grant| !grant.object.is_column_of(database, table));
            }
            Ok(user)
        })
    }

    /// REVOKE ALL PRIVILEGES, GRANT OPTION by `by`: nothing remains granted to the account but its
    /// roles and workload groups, which take more to be granted again.
    ///
    /// # Errors
    /// 1227 if `by` may not change it, 1141 if it does not exist, 1396 if it is `root`.
    pub fn revoke_all<'a>(&mut self, by: impl Into<Actor<'a>>, account: &Account) -> Result<()> {
        let by = by.into();
        self.change_user(account, "REVOKE", |catalog, mut user| {
            authorize_over(catalog, by, account)?;
            if *account == Account::root() {
                bail!(
                    CannotUser,
                    "Operation REVOKE failed for {account}: somebody must be able \
                     to grant it again"
                );
            }
            user.grants.clear();
            Ok(user)
        })
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn change_user(
        &mut self,
        account: &Account,
        operation: &str,
        change: impl FnOnce(&Catalog, User) -> Result<User>,
    ) -> Result<()> {
        let catalog = &self.catalog;
        let user = catalog.user(account).ok_or_else(|| unknown(account, operation))?;
        let user = change(catalog, user.as_ref().clone())?;
        self.edit(Edit::Put(Box::new(user)));
        Ok(())
    }

    fn edit(&mut self, edit: Edit) {
        edit.apply(&mut self.catalog);
        self.edits.push(edit);
    }
}

/// The error of a statement about an account that does not exist.
fn unknown(account: &Account, operation: &str) -> Error {
    let Account { name, host } = account;
    match operation {
        "GRANT" => err!(
            GrantToNobody,
            "You are not allowed to create a user with GRANT: {account} does not exist"
        ),
        "REVOKE" => {
            err!(NoSuchGrant, "There is no such grant defined for user '{name}' on host '{host}'")
        }
        _ => err!(CannotUser, "Operation {operation} failed for {account}"),
    }
}

/// Checks that an account may go.
fn check_unbound(catalog: &Catalog, account: &Account, operation: &str) -> Result<()> {
    if *account == Account::root() {
        bail!(CannotUser, "Operation {operation} failed for {account}: it always exists");
    }
    // Who may not see the table is not told of it.
    if policies::is_bound(catalog, account) {
        bail!(
            CannotUser,
            "Operation {operation} failed for {account}: row policies restrict it; DROP ROW POLICY \
             first, SHOW ROW POLICY FOR has them"
        );
    }
    Ok(())
}

fn check_account(account: &Account, operation: &str) -> Result<()> {
    let bad = |text: &str, max: usize| {
        text.chars().count() > max || text.chars().any(|c| c.is_control() || c == '@')
    };
    // An empty name would be MySQL's anonymous user, usable by everybody.
    let wrong = account.name.is_empty()
        || account.host.is_empty()
        || bad(&account.name, USER_CHARS_MAX)
        || bad(&account.host, HOST_CHARS_MAX);
    if wrong {
        bail!(
            CannotUser,
            "Operation {operation} failed for {account}: names have 1 to {USER_CHARS_MAX} \
             characters, hosts 1 to {HOST_CHARS_MAX}, without '@' and control characters"
        );
    }
    Ok(())
}

impl User {
    /// The lines of SHOW GRANTS, one per object; USAGE on the server if nothing is granted there.
    /// Behind them a line of the roles without ADMIN OPTION, and one of those with it.
    pub fn show_grants(&self) -> Vec<String> {
        let mut objects = vec![GrantObject::Server];
        for grant in &self.grants {
            let object = match &grant.object {
                GrantObject::Column(database, table, _) => {
                    GrantObject::Table(database.clone(), table.clone())
                }
                other => other.clone(),
            };
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        let granted = objects.iter().map(|object| self.show_grant(object));
        let groups = self.groups.iter().map(|group| self.show_group(group));
        granted
            .chain(groups)
            .chain([false, true].into_iter().filter_map(|admin| self.show_roles(admin)))
            .collect()
    }

    fn show_group(&self, group: &str) -> String {
        format!("GRANT USAGE_PRIV ON WORKLOAD GROUP '{group}' TO {}", self.account.quoted())
    }

    fn show_roles(&self, admin: bool) -> Option<String> {
        let roles = self.roles.iter().filter(|granted| granted.admin == admin);
        let roles = roles.map(|granted| granted.role.quoted()).collect::<Vec<_>>();
        let with = if admin { " WITH ADMIN OPTION" } else { "" };
        let line = || format!("GRANT {} TO {}{with}", roles.join(","), self.account.quoted());
        (!roles.is_empty()).then(line)
    }

    fn show_grant(&self, object: &GrantObject) -> String {
        let privileges = self.granted(object);
        let option = Privileges::NONE.with(Privilege::GrantOption);
        let plain = privileges.without(option);
        let mut names = Vec::new();
        let is_all = plain.contains(Privileges::all());
        if is_all {
            names.push("ALL PRIVILEGES".to_owned());
        }
        // What is left of ALL has privileges that such a thing cannot have, nor be granted.
        let plain = match object {
            GrantObject::Server => plain,
            GrantObject::Database(_) => plain.without(Privileges::of_server_alone()),
            GrantObject::Table(..) | GrantObject::Column(..) => {
                plain.within(Privileges::of_tables())
            }
        };
        for &privilege in Privilege::ALL.iter().filter(|one| **one != Privilege::GrantOption) {
            if !is_all {
                names.extend(plain.has(privilege).then(|| privilege.name().to_owned()));
            }
            names.extend(self.show_columns(object, privilege));
        }
        let names = if names.is_empty() { "USAGE".to_owned() } else { names.join(", ") };
        let to = self.account.quoted();
        let with = if privileges.contains(option) { " WITH GRANT OPTION" } else { "" };
        format!("GRANT {names} ON {object} TO {to}{with}")
    }

    /// A privilege on columns of a table, as `SELECT (a, b)`.
    fn show_columns(&self, object: &GrantObject, privilege: Privilege) -> Option<String> {
        let GrantObject::Table(database, table) = object else { return None };
        let columns = self.grants.iter().filter_map(|grant| match &grant.object {
            GrantObject::Column(_, _, column)
                if grant.object.is_column_of(database, table)
                    && grant.privileges.has(privilege) =>
            {
                Some(format!("`{}`", column.replace('`', "``")))
            }
            _ => None,
        });
        let columns = columns.collect::<Vec<_>>();
        (!columns.is_empty()).then(|| format!("{} ({})", privilege.name(), columns.join(", ")))
    }
}

#[cfg(test)]
mod tests;
