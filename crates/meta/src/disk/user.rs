//! Users and their grants.

use prost::{Message, Oneof};

use super::user_options::UserOptionsForm;
use super::workload::UserPropertiesForm;
use super::{OnDisk, Unreadable, forms, from_forms, numbered, required};
use crate::privilege::{Privilege, Privileges};
use crate::user::{Account, AuthData, Grant, GrantObject, GrantedRole, TlsRequirement, User};
use crate::user_options::UserOptions;
use crate::user_properties::UserProperties;

/// It has no `Debug`, to keep hashes out of logs.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct UserForm {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    host: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    native: Option<Vec<u8>>,
    #[prost(string, optional, tag = "4")]
    sha2_slow: Option<String>,
    #[prost(message, repeated, tag = "5")]
    grants: Vec<GrantForm>,
    #[prost(uint32, optional, tag = "6")]
    tls: Option<u32>,
    #[prost(bool, optional, tag = "7")]
    locked: Option<bool>,
    #[prost(message, repeated, tag = "8")]
    roles: Vec<GrantedRoleForm>,
    #[prost(message, repeated, tag = "9")]
    default_roles: Vec<AccountForm>,
    #[prost(message, optional, tag = "10")]
    options: Option<UserOptionsForm>,
    #[prost(uint64, optional, tag = "11")]
    changed_seconds: Option<u64>,
    #[prost(string, repeated, tag = "12")]
    groups: Vec<String>,
    #[prost(message, optional, tag = "13")]
    properties: Option<UserPropertiesForm>,
    #[prost(message, repeated, tag = "14")]
    past: Vec<PastPasswordForm>,
    #[prost(string, optional, tag = "15")]
    attributes: Option<String>,
    #[prost(message, optional, tag = "16")]
    second: Option<PastPasswordForm>,
}

/// As [`UserForm`] it has no `Debug`.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct PastPasswordForm {
    #[prost(bytes = "vec", optional, tag = "1")]
    native: Option<Vec<u8>>,
    #[prost(string, optional, tag = "2")]
    sha2_slow: Option<String>,
    #[prost(uint64, tag = "3")]
    changed_seconds: u64,
}

fn past_form(auth: &AuthData) -> PastPasswordForm {
    PastPasswordForm {
        native: auth.native.map(Vec::from),
        sha2_slow: auth.sha2_slow.clone(),
        changed_seconds: auth.changed_seconds,
    }
}

fn from_past_form(form: PastPasswordForm) -> Result<AuthData, Unreadable> {
    Ok(AuthData {
        native: native_of(form.native)?,
        sha2_slow: form.sha2_slow,
        tls: TlsRequirement::None,
        changed_seconds: form.changed_seconds,
    })
}

fn native_of(stored: Option<Vec<u8>>) -> Result<Option<[u8; 20]>, Unreadable> {
    let native = stored.map(<[u8; 20]>::try_from).transpose();
    native.map_err(|_| Unreadable("a hash is not of 20 bytes".to_owned()))
}

#[derive(Clone, PartialEq, Message)]
pub struct AccountForm {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    host: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GrantedRoleForm {
    #[prost(message, optional, tag = "1")]
    role: Option<AccountForm>,
    #[prost(bool, tag = "2")]
    admin: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct GrantForm {
    #[prost(oneof = "ObjectForm", tags = "1, 2, 3, 5")]
    object: Option<ObjectForm>,
    #[prost(uint32, repeated, tag = "4")]
    privileges: Vec<u32>,
    /// Of a grant with all of the first privileges: whether others were known when it was made, and
    /// those it does not have were not granted. Without this it is a grant of ALL from before.
    #[prost(bool, tag = "6")]
    is_later: bool,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ObjectForm {
    #[prost(message, tag = "1")]
    Server(()),
    #[prost(string, tag = "2")]
    Database(String),
    #[prost(message, tag = "3")]
    Table(TableNameForm),
    #[prost(message, tag = "5")]
    Column(ColumnNameForm),
}

#[derive(Clone, PartialEq, Message)]
pub struct TableNameForm {
    #[prost(string, tag = "1")]
    database: String,
    #[prost(string, tag = "2")]
    table: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ColumnNameForm {
    #[prost(string, tag = "1")]
    database: String,
    #[prost(string, tag = "2")]
    table: String,
    #[prost(string, tag = "3")]
    column: String,
}

numbered!(TlsRequirement {
    None = 1,
    Ssl = 2,
    X509 = 3,
});

numbered!(Privilege {
    Select = 1,
    Insert = 2,
    Update = 3,
    Delete = 4,
    Create = 5,
    Drop = 6,
    Reload = 7,
    Process = 8,
    Alter = 9,
    ShowDatabases = 10,
    Super = 11,
    CreateView = 12,
    ShowView = 13,
    CreateUser = 14,
    Index = 15,
    GrantOption = 16,
    File = 17,
    Shutdown = 18,
    References = 19,
    CreateTemporaryTables = 20,
    LockTables = 21,
    Execute = 22,
    ReplicationSlave = 23,
    ReplicationClient = 24,
    CreateRoutine = 25,
    AlterRoutine = 26,
    Event = 27,
    Trigger = 28,
    CreateTablespace = 29,
    CreateRole = 30,
    DropRole = 31,
});

impl OnDisk for User {
    type Form = UserForm;

    fn form(&self) -> UserForm {
        UserForm {
            name: self.account.name.clone(),
            host: self.account.host.clone(),
            native: self.auth.native.map(Vec::from),
            sha2_slow: self.auth.sha2_slow.clone(),
            grants: forms(&self.grants),
            // Absent where nothing is required, as in accounts from before there was TLS.
            tls: Some(self.auth.tls)
                .filter(|tls| *tls != TlsRequirement::None)
                .map(|tls| tls.form()),
            // Absent of users, as in accounts from before there were roles.
            locked: Some(self.locked).filter(|locked| *locked),
            roles: forms(&self.roles),
            default_roles: forms(&self.default_roles),
            // Absent where there are none, as in accounts from before there were options.
            options: Some(self.options)
                .filter(|options| *options != UserOptions::default())
                .map(|options| options.form()),
            changed_seconds: Some(self.auth.changed_seconds).filter(|seconds| *seconds > 0),
            groups: self.groups.clone(),
            second: self.second.as_ref().map(past_form),
            past: self.past.iter().map(past_form).collect(),
            attributes: self.attributes.clone(),
            // Absent where there are none, as in accounts from before there were properties.
            properties: Some(&self.properties)
                .filter(|properties| **properties != UserProperties::default())
                .map(OnDisk::form),
        }
    }

    fn from_form(form: UserForm) -> Result<Self, Unreadable> {
        let native = native_of(form.native)?;
        let tls = form.tls.map(TlsRequirement::from_form).transpose()?.unwrap_or_default();
        Ok(Self {
            account: Account { name: form.name, host: form.host },
            auth: AuthData {
                native,
                sha2_slow: form.sha2_slow,
                tls,
                changed_seconds: form.changed_seconds.unwrap_or_default(),
            },
            locked: form.locked.unwrap_or_default(),
            grants: from_forms(form.grants)?,
            roles: from_forms(form.roles)?,
            default_roles: from_forms(form.default_roles)?,
            options: form.options.map(UserOptions::from_form).transpose()?.unwrap_or_default(),
            properties: form
                .properties
                .map(UserProperties::from_form)
                .transpose()?
                .unwrap_or_default(),
            groups: form.groups,
            second: form.second.map(from_past_form).transpose()?,
            past: form.past.into_iter().map(from_past_form).collect::<Result<_, _>>()?,
            attributes: form.attributes,
        })
    }
}

impl OnDisk for Account {
    type Form = AccountForm;

    fn form(&self) -> AccountForm {
        AccountForm { name: self.name.clone(), host: self.host.clone() }
    }

    fn from_form(form: AccountForm) -> Result<Self, Unreadable> {
        Ok(Self { name: form.name, host: form.host })
    }
}

impl OnDisk for GrantedRole {
    type Form = GrantedRoleForm;

    fn form(&self) -> GrantedRoleForm {
        GrantedRoleForm { role: Some(self.role.form()), admin: self.admin }
    }

    fn from_form(form: GrantedRoleForm) -> Result<Self, Unreadable> {
        Ok(Self { role: required(form.role, "role of a grant")?, admin: form.admin })
    }
}

impl OnDisk for Grant {
    type Form = GrantForm;

    fn form(&self) -> GrantForm {
        let object = match &self.object {
            GrantObject::Server => ObjectForm::Server(()),
            GrantObject::Database(database) => ObjectForm::Database(database.clone()),
            GrantObject::Table(database, table) => {
                let (database, table) = (database.clone(), table.clone());
                ObjectForm::Table(TableNameForm { database, table })
            }
            GrantObject::Column(database, table, column) => {
                let (database, table) = (database.clone(), table.clone());
                ObjectForm::Column(ColumnNameForm { database, table, column: column.clone() })
            }
        };
        // ALL is written as it was before there were others, so that an older version reads it.
        let is_all = self.privileges.contains(Privileges::all());
        let left_out = match is_all {
            true => Privileges::all().without(Privileges::first()),
            false => Privileges::NONE,
        };
        let privileges = self.privileges.without(left_out);
        let is_later = !is_all && privileges.contains(Privileges::first());
        let privileges = privileges.iter().map(|privilege| privilege.form()).collect();
        GrantForm { object: Some(object), privileges, is_later }
    }

    fn from_form(form: GrantForm) -> Result<Self, Unreadable> {
        let object = match form.object {
            Some(ObjectForm::Server(())) => GrantObject::Server,
            Some(ObjectForm::Database(database)) => GrantObject::Database(database),
            Some(ObjectForm::Table(TableNameForm { database, table })) => {
                GrantObject::Table(database, table)
            }
            Some(ObjectForm::Column(ColumnNameForm { database, table, column })) => {
                GrantObject::Column(database, table, column)
            }
            None => return Err(Unreadable("the object of a grant is missing".to_owned())),
        };
        let privileges = form.privileges.into_iter().map(Privilege::from_form);
        let privileges = privileges.collect::<Result<Privileges, _>>()?;
        let is_all = !form.is_later && privileges.contains(Privileges::first());
        let all = if is_all { Privileges::all() } else { Privileges::NONE };
        Ok(Self { object, privileges: privileges.and(all) })
    }
}
